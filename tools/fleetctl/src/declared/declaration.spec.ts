import { FleetFileError, formatYaml, hideSecrets } from '@toolfleet/fleet-file';
import { describe, expect, it } from 'vitest';
import { parseDeclaration } from './declaration.js';

const parse = (...texts: string[]) => parseDeclaration(texts.map((text, index) => ({ file: `${index}.yaml`, text })));
const faultsOf = (...texts: string[]): string[] => {
  try {
    parse(...texts);
    return [];
  } catch (error) {
    if (!(error instanceof FleetFileError)) throw error;
    return error.faults.map(({ path, message }) => `${error.file}: ${path} ${message}`);
  }
};

describe('parseDeclaration', () => {
  it('joins files, and reads what export writes', () => {
    const fleet = {
      declaration: 'team',
      openapi_tools: {
        shop: { spec_url: 'https://shop.example/openapi.json' },
        draft: { enabled: false, spec_url: 'x' },
      },
      mcp_servers: { crm: { url: 'https://${CRM_HOST}/mcp', headers: { Authorization: '${kept}' } } },
      budgets: [{ subject: 'user', id: 'ada', limit_usd: 1 }],
    };
    const read = parse(formatYaml(fleet), 'keys: { bot: { tools: ["crm_*"] }, empty: }\nx-notes: [1]\n');
    expect(read).toMatchObject({
      declaration: 'team',
      visibility: 'tenant',
      keys: { bot: { tools: ['crm_*'] }, empty: {} },
    });
    expect(read.sources).toEqual([
      { kind: 'openapi', name: 'shop', fields: fleet.openapi_tools.shop },
      { kind: 'mcp', name: 'crm', fields: fleet.mcp_servers.crm },
    ]);
    expect(read.budgets).toEqual(fleet.budgets);
    expect(read.files.get('keys.bot')).toBe('1.yaml');
  });

  it.each<[string, string[], string]>([
    ['no owner', ['toolsets: {}'], '0.yaml: declaration is missing; name the owner in one file'],
    ['two owners', ['declaration: a', 'declaration: b'], '1.yaml: declaration is declared in 0.yaml as well'],
    [
      'an entry twice',
      ['declaration: a\ntoolsets: { t: {} }', 'toolsets: { t: {} }'],
      '1.yaml: toolsets.t is declared in 0.yaml',
    ],
    [
      'a function like a server',
      [
        'mcp_servers: { f: { url: "https://a.example" } }\nmcp_tools: { f: { url: "https://a.example", func_name: f } }',
      ],
      'is declared in 0.yaml',
    ],
    ['a section of the operator', ['interceptors: {}'], '0.yaml: interceptors belongs into the configuration file'],
    ['a typing error', ['toolset: {}'], '0.yaml: toolset is an unknown key; did you mean toolsets?'],
    ['a command', ['mcp_servers: { a: { command: npx } }'], 'mcp_servers.a.command is for the configuration file'],
    ['an unknown right', ['keys: { bot: { tool: [] } }'], 'keys.bot.tool is an unknown key; did you mean tools?'],
    [
      'a budget without a limit',
      ['budgets: [{ subject: user, id: a }]'],
      'budgets[0] needs limit_usd, limit_tokens or both',
    ],
    ['a budget without an id', ['budgets: [{ subject: user, limit_usd: 1 }]'], 'budgets[0] needs the id of the user'],
    [
      'a budget twice',
      ['budgets: [&a { subject: user, id: a, limit_usd: 1 }, *a]'],
      'budgets of user a month is declared in',
    ],
    ['a webhook without kinds', ['webhooks: { w: { url: "https://a.example" } }'], 'webhooks.w needs kinds'],
    ['bad YAML, with its line', ['a: [\n'], '0.yaml:  is not valid YAML:'],
  ])('refuses %s', (_what, texts, fault) => {
    expect(faultsOf(...texts).join('\n')).toContain(fault);
  });
});

describe('hideSecrets', () => {
  it('hides secrets, headers and credentials of URLs, and leaves variables', () => {
    const fields = {
      url: 'https://ann:pass@a.example/mcp?key=1',
      headers: { 'X-Team': 'ops', Authorization: 'Bearer ${TOKEN}' },
      oauth: { client_id: 'fleet', client_secret: 's', identity: { id_token: 't' }, token_url: 'https://b.example/t' },
      auth: { user: { mode: 'connect', client_secret: 'u' } },
      overrides: { a: { value: 'shown' } },
    };
    const { shown, secrets } = hideSecrets(fields);
    expect(shown).toEqual({
      url: 'https://${kept}@a.example/mcp?${kept}',
      headers: { 'X-Team': '${kept}', Authorization: 'Bearer ${TOKEN}' },
      oauth: {
        client_id: 'fleet',
        client_secret: '${kept}',
        identity: { id_token: '${kept}' },
        token_url: 'https://b.example/t',
      },
      auth: { user: { mode: 'connect', client_secret: '${kept}' } },
      overrides: { a: { value: 'shown' } },
    });
    expect(secrets).toEqual(['ann:pass', 'key=1', 'ops', 's', 't', 'u']);
    expect(hideSecrets(shown)).toEqual({ shown, secrets: [] });
  });
});
