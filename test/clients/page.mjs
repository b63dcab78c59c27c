/** Writes the observations into docs/clients.md, between its markers. */
import { readFileSync, writeFileSync } from 'node:fs';
import { COLUMNS } from './checks.mjs';
import { CLIENTS, countCommands, countLines, renderRecipes } from './recipes.mjs';

const PAGE = new URL('../../docs/clients.md', import.meta.url);
const { dependencies } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
const SYMBOLS = { passed: 'yes', 'not offered': 'no', failed: '**failed**' };

/**
 * @param {Awaited<ReturnType<typeof import('./matrix.mjs').runClient>>[]} rows
 * @param {Awaited<ReturnType<typeof import('./nats-snippets.mjs').runNatsSnippets>>} natsRows
 */
export function writePage(rows, natsRows) {
  const replaced = [
    ['matrix', renderMatrix(rows, readFileSync(PAGE, 'utf8'))],
    ['nats', renderNats(natsRows)],
    ['recipes', renderRecipes()],
  ].reduce((text, [name, content]) => replacePart(text, name, content), readFileSync(PAGE, 'utf8'));
  writeFileSync(PAGE, replaced);
}

function replacePart(text, name, content) {
  const [start, end] = [`<!-- ${name} -->\n`, `<!-- end of ${name} -->`];
  const [before, rest] = text.split(start);
  if (rest === undefined || !rest.includes(end)) throw new Error(`docs/clients.md has no part '${name}'`);
  return `${before}${start}\n${content}\n\n${rest.slice(rest.indexOf(end))}`;
}

const table = (head, rows) => [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
const escape = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

const versionsOf = ({ packages, peer, python }) =>
  packages
    .filter((name) => name !== peer)
    .map((name) => `\`${name}\` ${python ?? dependencies[name]}`)
    .join(', ');

/** @param {string} before the page: a client that is not installed keeps its row and notes */
function renderMatrix(rows, before) {
  const kept = (start) => before.split('\n').filter((line) => line.startsWith(start));
  const clients = Object.keys(CLIENTS).map((client) => ({ client, row: rows.find((one) => one.client === client) }));
  const cells = clients.map(({ client, row }) => {
    const versions = versionsOf(CLIENTS[client]);
    if (!row) return kept(`| ${versions} |`)[0].slice(2, -2).split(' | ');
    const { revision, isAgent, cells: seen } = row;
    const symbols = COLUMNS.map((column) => SYMBOLS[seen[column]?.outcome] ?? '');
    return [versions, revision, isAgent ? 'yes' : 'no', ...symbols, `${countLines(client)} + ${countCommands(client)}`];
  });
  const notes = clients.flatMap(({ client, row }) => {
    const { title } = CLIENTS[client];
    if (!row) return kept(`- ${title}, `);
    return COLUMNS.filter((column) => row.cells[column]?.outcome !== 'passed').map((column) => {
      const { outcome, evidence = 'not observed' } = row.cells[column] ?? {};
      return `- ${title}, ${column}: ${outcome === 'failed' ? 'failed, ' : ''}${escape(evidence)}.`;
    });
  });
  const head = ['Client', 'Revision', 'Model loop', ...COLUMNS, 'Lines + commands'];
  return [
    table(head, cells),
    ...(notes.length > 0 ? ['Cells that are not `yes`, as observed:', notes.join('\n')] : []),
  ].join('\n\n');
}

function renderNats(rows) {
  return table(
    ['Client', 'Version', 'Call'],
    rows.map(({ client, version, outcome, evidence }) => [
      client,
      version,
      outcome === 'passed' ? 'yes' : `${outcome}: ${escape(evidence)}`,
    ]),
  );
}
