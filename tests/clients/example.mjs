// Checks the example in the README of a JavaScript package, from that package's tests.

import { readFile, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

/**
 * The first JavaScript example of a package's README. `folder` is that of the tests: a file in it
 * can import the package by its name.
 */
export class Example {
  #folder;
  #text;

  /** @param {string} test the URL of the test file */
  static async of(test) {
    const readme = await readFile(new URL('../README.md', test), 'utf8');
    const example = new Example();
    example.#folder = new URL('.', test);
    [, example.#text] = readme.match(/^```js\n(.*?)^```$/ms);
    return example;
  }

  /** Returns what the TypeScript compiler says about the example with more lines at its end. */
  async complaints(typescript, more) {
    const {
      ModuleKind: { NodeNext: module },
      ScriptTarget: { ES2023: target },
    } = typescript;
    const options = { module, target, strict: true, noEmit: true, skipLibCheck: true, types: [] };
    return this.#written('example.tmp.mts', this.#text + more, (file) => {
      const program = typescript.createProgram([fileURLToPath(file)], options);
      const text = ({ messageText }) => typescript.flattenDiagnosticMessageText(messageText, ' ');
      return typescript.getPreEmitDiagnostics(program).map(text);
    });
  }

  /** Runs the example against a service and a database; returns its variables of the given names. */
  async run(service, database, names) {
    const places = {
      '127.0.0.1:8080': new URL(service.url).host,
      '127.0.0.1:5432': new URL(database.connectionString).host,
    };
    const text = Object.entries(places).reduce((text, [written, real]) => {
      if (!text.includes(written)) throw new Error(`the example does not use ${written}`);
      return text.replaceAll(written, real);
    }, this.#text);
    return this.#written(
      'example.tmp.mjs',
      `${text}\nexport { ${names.join(', ')} };\n`,
      (file) => import(file),
    );
  }

  async #written(name, text, use) {
    const file = new URL(name, this.#folder);
    await writeFile(file, text);
    try {
      return await use(file);
    } finally {
      await rm(file);
    }
  }
}
