import type { NewWebhook, RouteRequest, Webhook, WebhookDelivery } from '@toolfleet/client';
import { EXIT } from '../cli-error.js';
import { type Columns, type Command, type CommandContext, noun, type Options, print, printTable } from '../command.js';
import { type CommandLine, listOption, numberOption, optionValue } from '../command-line.js';
import { pause } from '../follow-call.js';
import { showOnce } from '../shown-once.js';
import { facts } from '../terminal.js';

/** Time for the outcome of a test, longer than one attempt may take. */
const TEST_WAIT_MS = 15_000;
const LOOK_MS = 250;

type WebhookChange = RouteRequest<'PUT /api/v1/webhooks/{id}'>['body'];
const FIELDS: Options = [
  ['--kinds <names>', 'kinds of events, separated by commas; of a new webhook by default call.finished'],
  ['--tools <globs>', 'only events about these tools, separated by commas; "" for all'],
  ['--toolsets <names>', 'only events of calls through these toolsets, separated by commas; "" for all'],
  ['--description <text>', 'what it is for'],
];

/** `fleetctl webhooks`. */
export const webhooks: Command = noun('webhooks', {
  list: {
    async run(context) {
      const columns: Columns<Webhook> = {
        ID: ({ id }) => id,
        URL: ({ url }) => url,
        KINDS: ({ kinds }) => kinds.join(','),
        STATE: ({ state }) => state,
        'FAILING SINCE': ({ failing_since: since }) => since ?? '',
      };
      return printTable(context, await context.gateway().request('GET /api/v1/webhooks'), columns, 'No webhooks');
    },
  },
  create: { words: '<url>', options: FIELDS, run: (context, url) => create(context, url!) },
  set: {
    words: '<id> [url]',
    options: FIELDS,
    run: (context, id, url) => change(context, id!, { url, ...fieldsOf(context.line) }),
  },
  show: { words: '<id>', run: (context, id) => show(context, id!) },
  rotate: {
    words: '<id>',
    options: [['--overlap <hours>', 'hours of both signatures; default 24']],
    run: (context, id) => rotate(context, id!),
  },
  test: { words: '<id>', run: (context, id) => test(context, id!) },
  on: { words: '<id>', run: (context, id) => change(context, id!, { on: true }) },
  off: { words: '<id>', run: (context, id) => change(context, id!, { on: false }) },
  deliveries: {
    words: '<id>',
    options: [
      ['--state <pending|delivered|failed>', 'only these'],
      ['--limit <n>', 'how many; default 50'],
      ['--before <cursor>', 'before this cursor, as the last list named it'],
    ],
    run: (context, id) => deliveries(context, id!),
  },
  redeliver: {
    words: '<id> [event]',
    usage: '<id> <event>|--failed-since <instant>',
    options: [['--failed-since <instant>', 'all that failed of events since then']],
    run: (context, id, event) => redeliver(context, id!, event),
  },
  remove: {
    words: '<id>',
    async run(context, id = '') {
      await context.gateway().request('DELETE /api/v1/webhooks/{id}', { path: { id } });
      return print(context, { id, removed: true }, `Removed ${id}`);
    },
  },
});

/** The fields that options name; absent fields stay. */
const fieldsOf = (line: CommandLine): WebhookChange => ({
  kinds: listOption(line, 'kinds') as NewWebhook['kinds'] | undefined,
  description: optionValue(line, 'description'),
  tools: listOption(line, 'tools'),
  toolsets: listOption(line, 'toolsets'),
});

async function create({ gateway, json, terminal, line }: CommandContext, url: string): Promise<number> {
  const { kinds = ['call.finished'], ...fields } = fieldsOf(line);
  const body = await gateway().request('POST /api/v1/webhooks', { body: { url, kinds, ...fields } });
  return showSecret({ json, terminal }, body);
}

async function rotate({ gateway, json, terminal, line }: CommandContext, id: string): Promise<number> {
  const request = { overlap_hours: numberOption(line, 'overlap') };
  const body = await gateway().request('POST /api/v1/webhooks/{id}/rotate', { path: { id }, body: request });
  return showSecret({ json, terminal }, body);
}

function showSecret(
  { json, terminal }: Pick<CommandContext, 'json' | 'terminal'>,
  body: { webhook: Webhook; secret: string },
): number {
  showOnce({ json, terminal }, body, body.secret, `Secret of webhook ${body.webhook.id}`);
  return EXIT.ok;
}

async function show(context: CommandContext, id: string): Promise<number> {
  const body = await context.gateway().request('GET /api/v1/webhooks/{id}', { path: { id } });
  const rows = Object.entries(body).flatMap(([name, value]): [string, string][] =>
    value === null || (Array.isArray(value) && value.length === 0) ? [] : [[name, String(value)]],
  );
  return print(context, body, () => `${id}\n${facts(rows, 14, '  ')}`);
}

/** Posts a test and waits for its outcome. */
async function test(context: CommandContext, id: string): Promise<number> {
  const client = context.gateway();
  let delivery = await client.request('POST /api/v1/webhooks/{id}/test', { path: { id } });
  const until = Date.now() + TEST_WAIT_MS;
  const query = { event_id: delivery.event_id };
  while (delivery.state === 'pending' && delivery.error === null && Date.now() < until) {
    await pause(LOOK_MS, context.signal);
    const page = await client.request('GET /api/v1/webhooks/{id}/deliveries', { path: { id }, query });
    delivery = page.deliveries[0] ?? delivery;
  }
  print(context, delivery, describeOutcome(delivery));
  return delivery.state === 'delivered' ? EXIT.ok : EXIT.failed;
}

function describeOutcome({ state, status, error, duration_ms: took }: WebhookDelivery): string {
  if (state === 'delivered') return `Delivered: HTTP ${status} in ${took} ms`;
  return error === null ? 'No answer yet; see fleetctl webhooks deliveries' : `Not delivered: ${error}`;
}

async function change(context: CommandContext, id: string, body: WebhookChange): Promise<number> {
  const changed = await context.gateway().request('PUT /api/v1/webhooks/{id}', { path: { id }, body });
  return print(context, changed, `Webhook ${id} is ${changed.state}`);
}

async function deliveries(context: CommandContext, id: string): Promise<number> {
  const { gateway, json, terminal, line } = context;
  const query = {
    state: optionValue(line, 'state') as WebhookDelivery['state'] | undefined,
    limit: numberOption(line, 'limit'),
    before: optionValue(line, 'before'),
  };
  const body = await gateway().request('GET /api/v1/webhooks/{id}/deliveries', { path: { id }, query });
  const columns: Columns<WebhookDelivery> = {
    AT: (one) => one.event_at,
    EVENT: (one) => one.event_id,
    KIND: (one) => one.kind,
    STATE: (one) => one.state,
    ATTEMPTS: (one) => String(one.attempts),
    ANSWER: ({ error, status }) => error ?? (status === null ? '' : `HTTP ${status}`),
  };
  printTable(context, body.deliveries, columns, 'No deliveries', body);
  if (!json && body.next !== undefined) terminal.error(`Older deliveries: --before ${body.next}\n`);
  return EXIT.ok;
}

async function redeliver(context: CommandContext, id: string, event_id: string | undefined): Promise<number> {
  const sent = { path: { id }, body: { event_id, failed_since: optionValue(context.line, 'failed-since') } };
  const body = await context.gateway().request('POST /api/v1/webhooks/{id}/redeliver', sent);
  return print(context, body, `${body.redelivered} sent again`);
}
