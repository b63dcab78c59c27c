/** The pages of the site in their order: title of a group, and paths from the root of the repository. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const docs = (...names) => names.map((name) => `docs/${name}.md`);
const folder = (path) =>
  readdirSync(join(ROOT, path))
    .filter((name) => name.endsWith('.md'))
    .toSorted()
    .map((name) => `${path}/${name}`);

export const GROUPS = [
  ['Start', ['README.md']],
  [
    'Tutorials',
    docs(
      ...['your-api', 'many-tools', 'teams', 'failed-calls', 'approvals', 'kubernetes'].map(
        (name) => `tutorials/${name}`,
      ),
    ),
  ],
  [
    'A call',
    docs(
      'call-lifecycle',
      'arguments',
      'time-and-retries',
      'effects',
      'cache',
      'batches',
      'large-results',
      'selections',
      'errors',
      'call-fields',
    ),
  ],
  [
    'Entry points',
    docs(
      'http-api',
      'mcp',
      'mcp-servers',
      'mcp-protocol',
      'nats-api',
      'fleetctl',
      'declared-fleets',
      'clients',
      'webhooks',
    ),
    ['libs/client/README.md', 'clients/python/README.md'],
  ],
  [
    'Tools',
    docs(
      'openapi',
      'vendor-adapters',
      'sources',
      'toolsets',
      'tool-search',
      'tool-settings',
      'builtin-tools',
      'write-a-tool',
    ),
  ],
  ['Programs', docs('programs', 'python-sandbox')],
  [
    'People and limits',
    docs(
      'sign-in',
      'connections',
      'approvals',
      'policy',
      'interceptors',
      'budgets',
      'console',
      'security',
      'security-controls',
    ),
  ],
  [
    'Operations',
    docs('operations'),
    folder('docs/operations'),
    docs('configuration', 'quotas', 'metrics', 'subjects', 'performance'),
  ],
  ['Runbooks', folder('docs/runbooks')],
  [
    'Inside',
    [
      'CONTRIBUTING.md',
      ...['libs/engine', 'libs/journal', 'libs/transport', 'apps/python-sandbox'].map(
        (path) => `${path}/ARCHITECTURE.md`,
      ),
    ],
    docs('map', 'coming-from-elsewhere'),
    folder('docs/decisions'),
  ],
  ['Project', ['CHANGELOG.md', 'SECURITY.md']],
].map(([title, ...lists]) => ({ title, pages: lists.flat() }));

export const PAGES = GROUPS.flatMap(({ pages }) => pages);

/** Path of a page on the site. Pages keep the paths of the repository. */
export const addressOf = (page) => `/${page === 'README.md' ? 'index' : page.replace(/\.md$/, '')}`;

export const readPage = (page) => readFileSync(join(ROOT, page), 'utf8');

/** The first heading of a page, without marks. */
export const titleOf = (page) => (/^# (.+)$/m.exec(readPage(page))?.[1] ?? page).replaceAll('`', '');

/** Sentences of the first paragraph of a page, about 200 characters, as one line. */
export function summaryOf(page) {
  const [, ...paragraphs] = readPage(page).split(/\n\n+/);
  const first = paragraphs.find((text) => /^[A-Z`[]/.test(text.trim())) ?? '';
  const line = first
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return /^.{0,200}[.:](?= |$)/.exec(line)?.[0] ?? line;
}
