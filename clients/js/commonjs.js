// Writes the CommonJS form of the package in the working folder into its folder `commonjs`, for `require` where
// it cannot load ES modules. The types of both forms are the same.
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import typescript from 'typescript';

/**
 * Writes the CommonJS form of a package.
 *
 * @param {string} folder the package, whose ES modules are in the folder of what `exports` imports
 * @param {string} target the folder to write, which is emptied before
 */
export async function writeCommonJs(folder, target) {
  const { exports } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const { types, default: main } = exports['.'].import;
  const { ModuleKind, ScriptTarget } = typescript;
  await rm(target, { recursive: true, force: true });
  await mkdir(target, { recursive: true });
  const sources = join(folder, dirname(main));
  const isSource =
    main === './index.js' ? (name) => name === 'index.js' : (name) => name.endsWith('.js');
  for (const name of (await readdir(sources)).filter(isSource)) {
    const text = await readFile(join(sources, name), 'utf8');
    const options = { module: ModuleKind.CommonJS, target: ScriptTarget.ES2022 };
    const { outputText } = typescript.transpileModule(text, {
      fileName: name,
      compilerOptions: options,
    });
    await writeFile(join(target, name), outputText);
  }
  await copyFile(join(folder, types), join(target, basename(types)));
  await writeFile(join(target, 'package.json'), '{ "type": "commonjs" }\n');
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await writeCommonJs(process.cwd(), join(process.cwd(), 'commonjs'));
}
