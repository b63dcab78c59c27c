/** Which files are production source, and which parts of it a reader of the product may skip. Used by `code-shape` and by the map of the docs. */

/** Paths of earlier revisions included. Every other file is of the core. */
const PARTS = {
  kits: /^libs\/(?:kits|rego|egress|schema|openapi)\/|^apps\/python-sandbox\/src\/(?:wasi\/|python\/|sandbox)/,
  pack: /^libs\/builtin-tools\//,
};

/** @returns {boolean} whether a path of the repository is TypeScript of apps or libs, without specs and what only they use */
export function isProduction(path) {
  return /^(apps|libs)\/.*\.tsx?$/.test(path) && !/\.spec\.tsx?$|\/spec\/|^libs\/testing\//.test(path);
}

/** @returns {string} the folder of the package that a file is in, such as `libs/kits/rego` */
export function packageOf(path) {
  return /^(?:libs\/kits|\w+)\/[^/]+/.exec(path)[0];
}

/** @returns {'kits' | 'pack' | 'core'} the part that a file is in */
export function partOf(path) {
  return Object.keys(PARTS).find((part) => PARTS[part].test(path)) ?? 'core';
}

/** @returns {number} lines of a text, each with its line break */
export function countLines(text) {
  return text.split('\n').length - 1;
}
