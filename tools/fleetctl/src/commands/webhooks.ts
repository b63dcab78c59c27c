import type { NewWebhook, Webhook, WebhookDelivery } from '@toolfleet/client';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { numberOption, optionValue } from '../command-line.js';
import { showOnce } from '../shown-once.js';
import { jsonText, table } from '../terminal.js';

/** Time for the outcome of a test, longer than one attempt may take. */
const TEST_WAIT_MS = 15_000;
const LOOK_MS = 250;

/** `fleetctl webhooks`. */
export const webhooks: Command = {
  usage:
    'webhooks [list] | webhooks create <url> [--kinds names] | webhooks show|rotate|test|on|off|remove <id> | webhooks deliveries <id> [--state failed] | webhooks redeliver <id> <event>|--failed-since <instant>',
  options: [
    ['--kinds <names>', 'create: kinds of events, separated by commas; default: call.finished'],
    ['--tools <globs>', 'create: only events about these tools, separated by commas'],
    ['--toolsets <names>', 'create: only events of calls through these toolsets, separated by commas'],
    ['--description <text>', 'create: what it is for'],
    ['--overlap <hours>', 'rotate: hours of both signatures; default 24'],
    ['--state <pending|delivered|failed>', 'deliveries: only these'],
    ['--limit <n>', 'deliveries: how many; default 50'],
    ['--before <cursor>', 'deliveries before this cursor, as the last list named it'],
    ['--failed-since <instant>', 'redeliver: all that failed of events since then'],
  ],
  verbs: ['list', 'create', 'show', 'rotate', 'test', 'on', 'off', 'deliveries', 'redeliver', 'remove'],
  mostWords: 3,
  known: ['kinds', 'tools', 'toolsets', 'description', 'overlap', 'state', 'limit', 'before', 'failed-since'],
  async run(context) {
    const [verb = 'list', subject, more] = context.words;
    if (verb === 'list') return list(context);
    const act = VERBS.get(verb);
    if (!act || subject === undefined || (more !== undefined && verb !== 'redeliver'))
      throw new CliError(`usage: fleetctl ${webhooks.usage}`, EXIT.usage);
    return act(context, subject);
  },
};

const VERBS = new Map<string, (context: CommandContext, subject: string) => Promise<number>>([
  ['create', create],
  ['show', show],
  ['rotate', rotate],
  ['test', test],
  ['on', (context, id) => change(context, id, true)],
  ['off', (context, id) => change(context, id, false)],
  ['deliveries', deliveries],
  ['redeliver', redeliver],
  ['remove', remove],
]);

async function list({ gateway, json, terminal }: CommandContext): Promise<number> {
  const body = await gateway().request('GET /api/v1/webhooks');
  if (json) terminal.out(`${jsonText(body, 2)}\n`);
  else if (body.length === 0) terminal.out('No webhooks\n');
  else {
    const rows = body.map((one) => [one.id, one.url, one.kinds.join(','), one.state, one.failing_since ?? '']);
    terminal.out(table(['ID', 'URL', 'KINDS', 'STATE', 'FAILING SINCE'], rows, terminal.width));
  }
  return EXIT.ok;
}

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

async function deliveries({ gateway, json, terminal, line }: CommandContext, id: string): Promise<number> {
  const query = {
    state: optionValue(line, 'state') as WebhookDelivery['state'] | undefined,
    limit: numberOption(line, 'limit'),
    before: optionValue(line, 'before'),
  };
  const body = await gateway().request('GET /api/v1/webhooks/{id}/deliveries', { path: { id }, query });
  if (json) terminal.out(`${jsonText(body, 2)}\n`);
  else if (body.deliveries.length === 0) terminal.out('No deliveries\n');
  else {
    const rows = body.deliveries.map((one) => [
      one.event_at,
      one.event_id,
      one.kind,
      one.state,
      String(one.attempts),
      one.error ?? (one.status === null ? '' : `HTTP ${one.status}`),
    ]);
    terminal.out(table(['AT', 'EVENT', 'KIND', 'STATE', 'ATTEMPTS', 'ANSWER'], rows, terminal.width));
  }
  if (!json && body.next !== undefined) terminal.error(`Older deliveries: --before ${body.next}\n`);
  return EXIT.ok;
}

async function redeliver({ gateway, json, terminal, line, words }: CommandContext, id: string): Promise<number> {
  const request = { event_id: words[2], failed_since: optionValue(line, 'failed-since') };
  const body = await gateway().request('POST /api/v1/webhooks/{id}/redeliver', { path: { id }, body: request });
  terminal.out(json ? `${jsonText(body, 2)}\n` : `${body.redelivered} sent again\n`);
  return EXIT.ok;
}

async function remove({ gateway, json, terminal }: CommandContext, id: string): Promise<number> {
  await gateway().request('DELETE /api/v1/webhooks/{id}', { path: { id } });
  terminal.out(json ? `${jsonText({ id, removed: true })}\n` : `Removed ${id}\n`);
  return EXIT.ok;
}

const listOf = (text: string | undefined): string[] | undefined => text?.split(',').map((item) => item.trim());
