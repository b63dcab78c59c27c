import type { NewWebhook, Webhook, WebhookDelivery } from '@toolfleet/client';
import { EXIT } from '../cli-error.js';
import { type Columns, type Command, type CommandContext, noun, print, printTable } from '../command.js';
import { numberOption, optionValue } from '../command-line.js';
import { showOnce } from '../shown-once.js';
import { jsonText, table } from '../terminal.js';

/** Time for the outcome of a test, longer than one attempt may take. */
const TEST_WAIT_MS = 15_000;
const LOOK_MS = 250;

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
  create: {
    words: '<url>',
    options: [
      ['--kinds <names>', 'kinds of events, separated by commas; default: call.finished'],
      ['--tools <globs>', 'only events about these tools, separated by commas'],
      ['--toolsets <names>', 'only events of calls through these toolsets, separated by commas'],
      ['--description <text>', 'what it is for'],
    ],
    run: (context, url) => create(context, url!),
  },
  show: { words: '<id>', run: (context, id) => show(context, id!) },
  rotate: {
    words: '<id>',
    options: [['--overlap <hours>', 'hours of both signatures; default 24']],
    run: (context, id) => rotate(context, id!),
  },
  test: { words: '<id>', run: (context, id) => test(context, id!) },
  on: { words: '<id>', run: (context, id) => change(context, id!, true) },
  off: { words: '<id>', run: (context, id) => change(context, id!, false) },
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
    run: (context, id) => redeliver(context, id!),
  },
  remove: {
    words: '<id>',
    async run(context, id = '') {
      await context.gateway().request('DELETE /api/v1/webhooks/{id}', { path: { id } });
      return print(context, { id, removed: true }, `Removed ${id}`);
    },
  },
});

async function create({ gateway, json, terminal, line }: CommandContext, url: string): Promise<number> {
  const kinds = (listOf(optionValue(line, 'kinds')) ?? ['call.finished']) as NewWebhook['kinds'];
  const request: NewWebhook = {
    url,
    kinds,
    description: optionValue(line, 'description'),
    tools: listOf(optionValue(line, 'tools')),
    toolsets: listOf(optionValue(line, 'toolsets')),
  };
  const body = await gateway().request('POST /api/v1/webhooks', { body: request });
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

async function show({ gateway, json, terminal }: CommandContext, id: string): Promise<number> {
  const body = await gateway().request('GET /api/v1/webhooks/{id}', { path: { id } });
  const rows = Object.entries(body).flatMap(([name, value]) =>
    value === null || (Array.isArray(value) && value.length === 0) ? [] : [[name, String(value)]],
  );
  terminal.out(json ? `${jsonText(body, 2)}\n` : table(['WEBHOOK', id], rows, terminal.width));
  return EXIT.ok;
}

/** Posts a test and waits for its outcome. */
async function test({ gateway, json, terminal }: CommandContext, id: string): Promise<number> {
  const client = gateway();
  let delivery = await client.request('POST /api/v1/webhooks/{id}/test', { path: { id } });
  const until = Date.now() + TEST_WAIT_MS;
  const query = { event_id: delivery.event_id };
  while (delivery.state === 'pending' && delivery.error === null && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    const page = await client.request('GET /api/v1/webhooks/{id}/deliveries', { path: { id }, query });
    delivery = page.deliveries[0] ?? delivery;
  }
  terminal.out(json ? `${jsonText(delivery, 2)}\n` : `${describeOutcome(delivery)}\n`);
  return delivery.state === 'delivered' ? EXIT.ok : EXIT.failed;
}

function describeOutcome({ state, status, error, duration_ms: took }: WebhookDelivery): string {
  if (state === 'delivered') return `Delivered: HTTP ${status} in ${took} ms`;
  return error === null ? 'No answer yet; see fleetctl webhooks deliveries' : `Not delivered: ${error}`;
}

async function change({ gateway, json, terminal }: CommandContext, id: string, on: boolean): Promise<number> {
  const body = await gateway().request('PUT /api/v1/webhooks/{id}', { path: { id }, body: { on } });
  terminal.out(json ? `${jsonText(body, 2)}\n` : `Webhook ${id} is ${body.state}\n`);
  return EXIT.ok;
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

async function redeliver({ gateway, json, terminal, line, words }: CommandContext, id: string): Promise<number> {
  const request = { event_id: words[2], failed_since: optionValue(line, 'failed-since') };
  const body = await gateway().request('POST /api/v1/webhooks/{id}/redeliver', { path: { id }, body: request });
  terminal.out(json ? `${jsonText(body, 2)}\n` : `${body.redelivered} sent again\n`);
  return EXIT.ok;
}

const listOf = (text: string | undefined): string[] | undefined => text?.split(',').map((item) => item.trim());
