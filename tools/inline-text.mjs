/** An esbuild plugin: Python and Lua sources that a module reads from its package become strings in the bundle. */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const READ = /readFileSync\(new URL\('([^']+\.(?:lua|py))', import\.meta\.url\), 'utf8'\)/g;

/** @returns {import('esbuild').Plugin} */
export function inlineText() {
  return {
    name: 'inline-text',
    setup(builder) {
      builder.onLoad({ filter: /[\\/](?:apps|libs)[\\/].*\.(?:js|ts)$/ }, ({ path }) => {
        const code = readFileSync(path, 'utf8');
        const contents = code.replace(READ, (_, file) =>
          JSON.stringify(readFileSync(new URL(file, pathToFileURL(path)), 'utf8')),
        );
        return contents === code ? undefined : { contents, loader: path.endsWith('.ts') ? 'ts' : 'js' };
      });
    },
  };
}
