import type { JsonObject } from '@toolfleet/contracts';
import { formatYaml, KEPT } from '@toolfleet/fleet-file';
import { EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { optionValue } from '../command-line.js';
import { isPersonal, isValid, toFilters, toLimits, toRights } from '../declared/kinds.js';
import { jsonText } from '../terminal.js';

/** `fleetctl export`: resources made over the HTTP API, as files that `apply` reads. */
export const exportFleet: Command = {
  usage: 'export [--declaration <name>] [--visibility <fleet>]',
  options: [
    ['--declaration <name>', 'Name of the declaration; default: exported'],
    ['--visibility <fleet>', 'Sources and toolsets that are shared with all tenants (operators)'],
  ],
  mostWords: 0,
  known: ['declaration', 'visibility'],
  async run({ gateway: connect, line, terminal, json }) {
    const gateway = connect();
    const isShared = optionValue(line, 'visibility') === 'fleet';
    const { tenant_id: tenant } = await gateway.request('GET /api/v1/me');
    const isMine = (one: { tenant: string | null; origin: string }) =>
      one.origin === 'api' && one.tenant === (isShared ? null : tenant);
    const query = isShared ? { visibility: 'fleet' as const } : {};
    const sections: Record<string, JsonObject> = {
      openapi_tools: {},
      mcp_servers: {},
      mcp_tools: {},
      toolsets: {},
      keys: {},
      webhooks: {},
    };
    const notes: string[] = [];
    for (const { id, kind, name } of (await gateway.request('GET /api/v1/sources')).filter(isMine)) {
      const sent = { path: { kind, name: id.slice(kind.length + 1) }, query };
      const { spec_inline: document, ...fields } =
        (await gateway.request('GET /api/v1/sources/{kind}/{name}', sent)).registration ?? {};
      const section = kind === 'openapi' ? 'openapi_tools' : fields['func_name'] ? 'mcp_tools' : 'mcp_servers';
      const file: JsonObject = document === undefined ? {} : { spec_path: `${name}.json` };
      sections[section]![name] = { ...fields, ...file };
      if (document !== undefined)
        notes.push(`put the document of ${section}.${name} into ${name}.json next to the file`);
      if (JSON.stringify(fields).includes(KEPT))
        notes.push(
          `${section}.${name} has secrets that only the fleet has; write \${VARIABLE} to set them from the environment`,
        );
    }
    for (const { id, name } of (await gateway.request('GET /api/v1/toolsets')).filter(isMine))
      sections['toolsets']![name] = (
        await gateway.request('GET /api/v1/toolsets/{name}', { path: { name: id }, query })
      ).spec as JsonObject;
    for (const key of await gateway.request('GET /api/v1/keys'))
      // Operators set tiers.
      if (key.tenant_id === tenant && isValid(key) && !isPersonal(key))
        sections['keys']![key.client] = toRights({ ...key, tier: null });
    const { budgets: listed } = await gateway.request('GET /api/v1/budgets');
    const budgets = listed
      .filter(({ subject }) => subject !== undefined)
      .map(({ subject, subject_id: id, period, ...limits }) => ({
        subject: subject!,
        ...(subject === 'tenant' ? { tenant_id: tenant } : { id: id! }),
        period: period!,
        ...toLimits(limits),
      }));
    const owned = new Map(
      (await gateway.request('GET /api/v1/declarations')).flatMap((one) =>
        Object.entries(one.owned).map(([id, note]) => [note, id.replace('webhooks/', '')] as const),
      ),
    );
    for (const [index, webhook] of (await gateway.request('GET /api/v1/webhooks')).entries()) {
      const name = owned.get(webhook.id) ?? `webhook_${index + 1}`;
      // The path or query of an endpoint is often its only credential.
      const url = `\${${name.toUpperCase().replaceAll('-', '_')}_URL}`;
      notes.push(`set ${url.slice(2, -1)} to the address of webhook ${webhook.id}, on ${new URL(webhook.url).host}`);
      sections['webhooks']![name] = { url, ...toFilters(webhook, true) };
    }
    const filled = Object.entries(sections).filter(([, entries]) => Object.keys(entries).length > 0);
    const document: JsonObject = {
      declaration: optionValue(line, 'declaration') ?? 'exported',
      ...(isShared && { visibility: 'fleet' }),
      ...Object.fromEntries(filled),
      ...(budgets.length > 0 && { budgets }),
    };
    terminal.out(json ? `${jsonText(document, 2)}\n` : formatYaml(document));
    for (const note of notes) terminal.error(`${note}\n`);
    return EXIT.ok;
  },
};
