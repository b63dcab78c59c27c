/**
 * Looks at every link of the built site: a link to a page, an anchor or a picture that is not there is an error. Each error of the
 * catalogue must have its paragraph.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { readPage } from './.vitepress/pages.mjs';

const DIST = join(import.meta.dirname, 'dist');
const base = process.env.SITE_BASE ?? '/';
const pages = new Map(
  globSync('**/*.html', { cwd: DIST }).map((path) => [path, readFileSync(join(DIST, path), 'utf8')]),
);
const idsOf = new Map(
  [...pages].map(([path, html]) => [path, new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))]),
);

const faults = [];
let links = 0;
for (const [path, html] of pages) {
  if (path === '404.html') continue;
  for (const [, attribute] of html.matchAll(/\s(?:href|src)="([^"]*)"/g)) {
    if (/^([a-z]+:|\/\/)/.test(attribute)) continue;
    links += 1;
    const fault = faultOf(path, attribute.replaceAll('&amp;', '&'));
    if (fault) faults.push(`${path}: ${attribute} ${fault}`);
  }
}
for (const [, code] of readPage('docs/errors.md').matchAll(/^### `([A-Z_]+)`$/gm)) {
  const fault = faultOf('index.html', `docs/errors.html#${code.toLowerCase()}`);
  if (fault) faults.push(`the paragraph of ${code} ${fault}`);
}
process.stdout.write(`${links} links of ${pages.size} pages, ${faults.length} broken\n`);
if (faults.length > 0) {
  process.stderr.write(`${[...new Set(faults)].join('\n')}\n`);
  process.exit(1);
}

function faultOf(from, link) {
  const [path, anchor] = link.split('#').map(decodeURIComponent);
  const absolute = path.startsWith(base) ? path.slice(base.length) : join(dirname(from), path);
  const target =
    path === '' ? from : normalize(absolute === '' || absolute.endsWith('/') ? `${absolute}index.html` : absolute);
  const file = [target, `${target}.html`].find((name) => existsSync(join(DIST, name)) && !name.endsWith('/'));
  if (!file) return 'is not there';
  return anchor && idsOf.has(file) && !idsOf.get(file).has(anchor) ? 'has no such anchor' : undefined;
}
