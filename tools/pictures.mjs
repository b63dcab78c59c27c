/**
 * `npm run pictures`: the pictures of the README, from the fleet that `npm start` runs here: makes calls, then takes the console with
 * the machine's Chromium (`CHROMIUM_PATH` or the usual places) and writes commands with their output into `docs/pictures`.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findChromium, launchChromium } from '../test/browser/chromium.ts';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const TARGET = join(ROOT, 'docs/pictures');
const STATE = process.env.TOOLFLEET_STATE_DIR ?? join(ROOT, '.toolfleet');
const { url, api_key: key } = JSON.parse(readFileSync(join(STATE, 'local.json'), 'utf8'));

/** Calls that an overview can show: of every kind, with failures. */
const CALLS = [
  ...Array.from({ length: 24 }, (_, n) => ['calculator', { expression: `${n} * 7` }]),
  ...Array.from({ length: 6 }, (_, n) => ['execute_python', { code: `sum(range(${n}))` }]),
  ...Array.from({ length: 8 }, (_, n) => ['parcels_getParcel', { parcel_id: `P-${1001 + (n % 3)}` }]),
  ...Array.from({ length: 6 }, (_, n) => ['sample_add', { a: n, b: 2 }]),
  ['execute_python', { code: 'prices["tea"]' }],
  ['parcels_getParcel', { parcel_id: 'P-9' }],
  ['calculator', { expression: '1 / 0' }],
];
/** Content of the picture of a terminal. */
const SESSION = [
  `tool calculator '{"expression": "2 * (3 + 4)"}' | jq .output`,
  `npx fleetctl tools search "where is my parcel" --limit 2`,
  `npx fleetctl call parcels_getParcel --parcel_id P-1001`,
  `npx fleetctl call execute_python --code 'prices["tea"]'`,
  `npx fleetctl calls --from 1h --status failure`,
];
/** Pictures of the console by name: a screen and a telephone. */
const WIDTHS = { console: { width: 1440, height: 900 }, 'console-narrow': { width: 390, height: 844 } };
const COLUMNS = 104;
const LINE_PX = 19;
const CHARACTER_PX = 8.43;

mkdirSync(TARGET, { recursive: true });
for (const [tool, args] of CALLS)
  await fetch(`${url}/api/v1/tools/${tool}/execute`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ arguments: args }),
  });
writeFileSync(join(TARGET, 'terminal.svg'), terminal(SESSION.flatMap(typed)));
await takeConsole();

async function takeConsole() {
  const browser = await launchChromium(findChromium());
  try {
    for (const [name, viewport] of Object.entries(WIDTHS)) {
      const page = await (await browser.newContext({ viewport })).newPage();
      await page.goto(`${url}/console`);
      await page.getByLabel('API key').fill(key);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
      await page.getByText('Loading…').first().waitFor({ state: 'detached' });
      await page.screenshot({ path: join(TARGET, `${name}.png`) });
    }
  } finally {
    await browser.close();
  }
}

/** A command and the lines it printed, cut to the width of the picture. */
function typed(command) {
  const shell = `. ${join(STATE, 'env')} && { ${command}; } 2>&1 || true`;
  const env = {
    ...process.env,
    PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`,
    npm_config_loglevel: 'error',
  };
  const printed = execFileSync('bash', ['-c', shell], { cwd: ROOT, env, encoding: 'utf8' }).trimEnd();
  return [
    `$ ${command}`,
    ...printed.split('\n').map((line) => (line.length > COLUMNS ? `${line.slice(0, COLUMNS - 1)}…` : line)),
    '',
  ];
}

/** Lines of a terminal as an SVG. */
function terminal(lines) {
  const width = Math.ceil(COLUMNS * CHARACTER_PX) + 40;
  const height = lines.length * LINE_PX + 30;
  const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const texts = lines.map((line, index) => {
    const colour = line.startsWith('$ ') ? '#7ee2b8' : '#d8dee9';
    return `  <text x="20" y="${30 + index * LINE_PX}" fill="${colour}">${escaped(line)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">
  <rect width="${width}" height="${height}" rx="10" fill="#161b22"/>
${texts.join('\n')}
</svg>
`;
}
