/** An esbuild plugin: Python and Lua sources and wheels that a module reads from its package become part of the bundle. */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const READ = /readFileSync\(new URL\('([^']+\.(?:lua|py))', import\.meta\.url\), 'utf8'\)/g;
const READ_BYTES = /readFileSync\(new URL\('([^']+\.whl)', import\.meta\.url\)\)/g;

/** @returns {import('esbuild').Plugin} */
export function inlineText() {
  return {
    name: 'inline-text',
    setup(builder) {
      builder.onLoad({ filter: /[\\/](?:apps|libs)[\\/].*\.(?:js|ts)$/ }, ({ path }) => {
        const code = readFileSync(path, 'utf8');
        const read = (file, encoding) => JSON.stringify(readFileSync(new URL(file, pathToFileURL(path)), encoding));
        const contents = code
          .replace(READ, (_, file) => read(file, 'utf8'))
          .replace(READ_BYTES, (_, file) => `Buffer.from(${read(file, 'base64')}, 'base64')`);
        return contents === code ? undefined : { contents, loader: path.endsWith('.ts') ? 'ts' : 'js' };
      });
    },
  };
}
