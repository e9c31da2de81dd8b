// What the server wrote into the page: what it serves, and the widths of every layout.
export const settings = JSON.parse(document.querySelector('meta[name=raindrop]').content);

// The fields of a layout or namespace, [name, bits] from the most significant.
export function fieldsOf(parsed) {
  const list = parsed.layout ? settings.layouts : settings.namespaces;
  return list.find((one) => one.name === (parsed.layout ?? parsed.namespace))?.fields ?? [];
}

export const snowflakes = settings.namespaces.filter((one) => one.fields.length);
export const segments = settings.namespaces.filter((one) => !one.fields.length);
