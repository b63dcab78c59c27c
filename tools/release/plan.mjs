/** Changes of a release, as pure functions of the files. */

const VERSION = /^(\d+)\.(\d+)\.(\d+)(?:-[0-9A-Za-z.-]+)?$/;

/** Files that keep old versions on purpose: records of releases or measurements. */
const KEPT =
  /^(CHANGELOG\.md$|package-lock\.json$|test\/skew\/|test\/cluster\/version-skew|test\/load\/results\/|test\/release\.spec\.ts$|docs\/decisions\/)/;

/**
 * The plan of a release.
 * @param {{ version: string, current: string, today: string, tags: string[], files: Map<string, string> }} facts
 *   `files`: the text of every tracked file that may hold a version, by path
 * @returns {{ tag: string, notes: string, edits: Map<string, string> }} new texts by path, and the section of the changelog
 * @throws Error that names the missing part
 */
export function planRelease({ version, current, today, tags, files }) {
  if (!VERSION.test(version)) throw new Error(`"${version}" is not a version such as 1.2.3`);
  if (compare(version, current) < 0) throw new Error(`${version} is older than ${current}`);
  const tag = `v${version}`;
  if (tags.includes(tag)) throw new Error(`${tag} exists already; choose a later version`);
  const { notes, text } = releaseNotes(files.get('CHANGELOG.md') ?? '', version, today);
  const edits = new Map([['CHANGELOG.md', text]]);
  if (version === current) return { tag, notes, edits };
  for (const [path, before] of files) {
    const after = bumped(path, before, current, version);
    if (after !== before) edits.set(path, after);
  }
  return { tag, notes, edits };
}

/** The section of a version, and the changelog with its date in place of "unreleased". */
export function releaseNotes(changelog, version, today) {
  const heading = `## ${version} (unreleased)`;
  const start = changelog.indexOf(`${heading}\n`);
  if (start === -1) throw new Error(`CHANGELOG.md has no section "${heading}"; write it first`);
  const body = changelog.slice(start + heading.length);
  const end = body.search(/\n## /);
  const notes = (end === -1 ? body : body.slice(0, end)).trim();
  if (notes === '') throw new Error(`the section "${heading}" of CHANGELOG.md is empty`);
  return { notes, text: changelog.replace(heading, `## ${version} (${today})`) };
}

function bumped(path, text, from, to) {
  if (path === 'package-lock.json' || path.endsWith('package.json')) return bumpedManifest(path, text, from, to);
  if (KEPT.test(path)) return text;
  // As a value: in a sentence it says since or until when something was so.
  return text.replaceAll(new RegExp(`(?<=[:'"])${from.replaceAll('.', '\\.')}(?![\\d.-]|\\.\\d)`, 'g'), to);
}

/** Own packages only: another project may have the same version. */
function bumpedManifest(path, text, from, to) {
  const json = JSON.parse(text);
  const manifests = path === 'package-lock.json' ? ownEntries(json) : [json];
  for (const manifest of manifests) {
    if (manifest.version === from) manifest.version = to;
    for (const list of [manifest.dependencies, manifest.devDependencies])
      for (const name of Object.keys(list ?? {}))
        if (name.startsWith('@toolfleet/') && list[name] === from) list[name] = to;
  }
  return `${JSON.stringify(json, null, 2)}\n`;
}

const ownEntries = (lock) => [
  lock,
  ...Object.entries(lock.packages).flatMap(([place, entry]) => (place.includes('node_modules/') ? [] : [entry])),
];

function compare(a, b) {
  const parts = (version) => VERSION.exec(version).slice(1, 4).map(Number);
  const [left, right] = [parts(a), parts(b)];
  const at = left.findIndex((part, index) => part !== right[index]);
  return at === -1 ? 0 : left[at] - right[at];
}
