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
    ['matrix', renderMatrix(rows)],
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

function renderMatrix(rows) {
  const cells = rows.map(({ client, revision, isAgent, cells: row }) => [
    CLIENTS[client].packages
      .filter((name) => name !== CLIENTS[client].peer)
      .map((name) => `\`${name}\` ${dependencies[name]}`)
      .join(', '),
    revision,
    isAgent ? 'yes' : 'no',
    ...COLUMNS.map((column) => SYMBOLS[row[column]?.outcome] ?? ''),
    `${countLines(client)} + ${countCommands(client)}`,
  ]);
  const notes = rows.flatMap(({ client, cells: row }) =>
    COLUMNS.filter((column) => row[column]?.outcome !== 'passed').map(
      (column) =>
        `- ${CLIENTS[client].title}, ${column}: ${row[column]?.outcome === 'failed' ? 'failed, ' : ''}${escape(row[column]?.evidence ?? 'not observed')}.`,
    ),
  );
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
