import { describe, expect, it } from 'vitest';
import { faultLine } from './faults.js';
import { FleetFileError, parseFleetFiles, type FleetFile } from './read-fleet-file.js';

const read = (text: string): FleetFile => parseFleetFiles([{ file: 'fleet.yaml', text }]);
const refusal = (text: string): string => {
  try {
    read(text);
    return 'accepted';
  } catch (error) {
    expect(error).toBeInstanceOf(FleetFileError);
    return (error as FleetFileError).message.replace('configuration file fleet.yaml: ', '');
  }
};

describe('the configuration file', () => {
  it.each([
    ['# only a comment\n', { interceptors: {} }],
    [
      'x-limits: &l { max_cost_per_day: 1 }\nbudget: { defaults: *l }',
      { budget: { defaults: { max_cost_per_day: 1 } } },
    ],
    [
      'budget:\n  tenants:\n    a: &a { max_cost_per_day: 1 }\n    b:\n      <<: *a\n      max_tokens_per_day: null',
      { budget: { tenants: { b: { max_cost_per_day: 1, max_tokens_per_day: null } } } },
    ],
    ['default_projects: { a: 2020-01-01 }', { default_projects: { a: '2020-01-01' } }],
    ['mcp_servers:\nbudget:\n', { mcp: [], budget: {} }],
    ['mcp_servers: { a: { url: "${URL}", command: x } }', { refused: [{ name: 'a' }] }],
    ['mcp_servers: { a: { url: "http://a", headers: { X: "${KEY}" } } }', { mcp: [{ headers: { X: '${KEY}' } }] }],
    ['mcp_servers: { off: { enabled: false, url: 3 } }', { mcp: [], refused: [] }],
    ['openapi_tools: { draft: { spec_url: https://a.example } }', { openapi: [], refused: [] }],
  ])('reads %j', (text, expected) => expect(read(text)).toMatchObject(expected));

  it.each([
    ['- a list', 'must be a mapping at its top level'],
    ['  \n', 'is empty; write {} for a configuration without any section'],
    ['a: [1', 'is not valid YAML: unexpected end of the stream within a flow collection in "fleet.yaml" (2:1)'],
    ['budget: {}\nbudget: {}', 'is not valid YAML: duplicated mapping key in "fleet.yaml" (2:1)'],
    [
      'budget: !!js/function "f"',
      'is not valid YAML: unknown tag !<tag:yaml.org,2002:js/function> in "fleet.yaml" (1:26)',
    ],
    ['openapi_toolz: {}', 'openapi_toolz is an unknown key; did you mean openapi_tools?'],
    ['budgets: { defaults: {} }', 'budgets is an unknown key; did you mean budget?'],
    ['rate_limit: {}', 'rate_limit is an unknown key; did you mean rate_limits?'],
    ['rate_limits: {nonsense}', 'rate_limits.nonsense is an unknown key; known: tiers'],
    [
      'rate_limits: { tiers: { pro: { requests_per_minutes: 1, requests_per_day: 0 }, odd: 5 } }',
      'rate_limits.tiers.pro.requests_per_minutes is an unknown key; did you mean requests_per_minute?; ' +
        'rate_limits.tiers.pro.requests_per_day must be a positive integer, not 0; ' +
        'rate_limits.tiers.odd must be a mapping, not 5',
    ],
    [
      'interceptors: { dlp: { kind: http, at: [call, reply], url: ftp://x } }',
      'interceptors.dlp.at.1 must be one of call, result, attempt, not "reply"; interceptors.dlp.url must be an http or https URL',
    ],
    ['interceptors: { dlp: { find: [secrets] } }', 'interceptors.dlp needs kind'],
    [
      'interceptors: { a: { kind: content, url: "http://a" }, b: { kind: module, file: b.mjs } }',
      'interceptors.a.url does not belong to an interceptor of kind content; ' +
        'interceptors.b.at is missing; an interceptor of kind module needs it; interceptors.b.file must be an absolute path',
    ],
    [
      'interceptors: { all: { kind: content, mandatory: true, tools: [a], on_failure: open } }',
      'interceptors.all.tools narrows an interceptor that is mandatory; interceptors.all.on_failure must be closed in an interceptor that is mandatory',
    ],
    [
      'interceptors: { own: { kind: content, patterns: { twice: "(a)\\\\1" } } }',
      'interceptors.own.patterns.twice is not a pattern of RE2: Pattern refused: error parsing regexp: invalid escape sequence: `\\1`',
    ],
    ['budget: []', 'budget must be a mapping'],
    ['budget: { max_cost_per_day: 5 }', 'budget.max_cost_per_day is an unknown key; known: defaults, tenants'],
    [
      'budget: { defaults: { max_cost: 1 } }',
      'budget.defaults.max_cost is an unknown key; known: max_cost_per_request, max_tokens_per_request, cost_budget_per_agent, ' +
        'token_budget_per_agent, cost_budget_per_task, token_budget_per_task, max_cost_per_day, max_tokens_per_day, ' +
        'max_cost_per_tenant, max_tokens_per_tenant, allow_cost_overrun',
    ],
    [
      'budget: { tenants: { acme: { max_cost_per_day: "5", max_tokens_per_day: -5 } } }',
      'budget.tenants.acme.max_cost_per_day must be a non-negative amount in USD, or null; ' +
        'budget.tenants.acme.max_tokens_per_day must be a non-negative integer, or null, not -5',
    ],
    ['sub_agent: { max_iterations: 100 }', 'sub_agent.max_iterations must be an integer from 1 to 20, not 100'],
    [
      'code_execution: { default_strictness: hard }',
      'code_execution.default_strictness must be one of lenient, standard, strict, not "hard"',
    ],
    [
      'code_execution: { extra_allowed_modules: { strict: ["a b"] } }',
      'code_execution.extra_allowed_modules.strict.0 must be the name of a Python module',
    ],
    ['default_projects: [main]', 'default_projects must be a mapping'],
    ['default_projects: { a: "a*" }', 'default_projects.a must be a project id of 1 to 255 characters without "*"'],
    [
      'tool_settings: { "get_*": { rate_limt: 5 } }',
      'tool_settings["get_*"].rate_limt is an unknown key; did you mean rate_limit?',
    ],
    [
      'tool_settings: { a: { retry_policy: none } }',
      'tool_settings.a.retry_policy must be { kind: none | network | idempotent }, or { kind: custom, max_attempts, ' +
        'base_delay_ms, multiplier, max_delay_ms, on }',
    ],
    [
      'tool_settings: { a: { retry_policy: { kind: network, max_attempts: 3 } } }',
      'tool_settings.a.retry_policy must be { kind: none | network | idempotent }, or { kind: custom, max_attempts, ' +
        'base_delay_ms, multiplier, max_delay_ms, on }',
    ],
    ['mcp_servers: [a]', 'mcp_servers must be a mapping of names to entries'],
    ['mcp_servers: { crm: { ulr: x } }', 'mcp_servers.crm.ulr is an unknown key; did you mean url?'],
    ['mcp_servers: { crm: { ulr: null } }', 'mcp_servers.crm.ulr is an unknown key; did you mean url?'],
    [
      'mcp_servers: { crm: { enabled: false, trustd: true } }',
      'mcp_servers.crm.trustd is an unknown key; did you mean trusted?',
    ],
    [
      'mcp_servers: { crm: { url: https://a, oauth: { client_secrt: x } } }',
      'mcp_servers.crm.oauth.client_secrt is an unknown key; did you mean client_secret?',
    ],
    [
      'openapi_tools: { a: { enabled: true, spec_url: https://a, auth_config: { tokn: x } } }',
      'openapi_tools.a.auth_config.tokn is an unknown key; did you mean token?',
    ],
    [
      'sign_in: { issuer: https://a, client_id: x, tenant: acme, insecure_skip_email_verified: true }',
      'sign_in.insecure_skip_email_verified only applies with user_claim: email; remove it',
    ],
    [
      'sign_in: { issuer: https://login.microsoftonline.com/common/v2.0, client_id: x, tenant: acme }',
      'sign_in.issuer admits accounts of every organization; set tenant_claim: tid, or groups',
    ],
    ['token_types: { "https://a": [jwt] }', 'token_types["https://a"].0 must be one of at+jwt, JWT, none, not "jwt"'],
    ['toolsets: { s: { includes: {} } }', 'toolsets.s.includes is an unknown key; did you mean include?'],
  ])('%j is refused as a whole', (text, message) => expect(refusal(text)).toBe(message));

  it('never repeats a string that may be a secret', () => {
    expect(refusal('budget: hunter22')).not.toContain('hunter22');
    expect(
      JSON.stringify(read('mcp_servers: { a: { url: https://a, headers: hunter22, oauth: hunter22 } }').refused),
    ).not.toContain('hunter22');
  });

  it('an entry with a wrong value is refused alone', () => {
    const file = read(`
openapi_tools:
  good: { enabled: true, spec_url: https://a.example, auth_config: { token: "\${T}" } }
  nowhere: { enabled: true }
  a b: { enabled: true, spec_url: https://a.example }
mcp_servers:
  crm: { url: https://a.example/mcp }
  local: { command: server, args: [--x], memory_limit_mb: 64 }
  relative: { url: example.com/mcp }
  file: { url: file:///etc/passwd }
  bad: { url: 3 }
  none:
mcp_tools:
  geocode: { url: https://b.example, func_name: geocode }
  half: { url: https://b.example }
  crm: { url: https://b.example, func_name: twice }
toolsets:
  sums: { include: { tools: ["a_*"] } }
  twice: { overrides: { a: { preset: { x: 1 }, hide: [x] } } }
`);
    expect([file.openapi, file.mcp].map((entries) => entries.map(({ name }) => name))).toEqual([
      ['good'],
      ['crm', 'local', 'geocode'],
    ]);
    expect(Object.keys(file.toolsets)).toEqual(['sums']);
    expect(file.refused.map(({ faults }) => faults.map(faultLine).join('; '))).toEqual([
      'openapi_tools.nowhere needs spec_url, spec_path or spec_inline',
      'openapi_tools["a b"].name must be up to 100 letters, digits, "_", "-" and "."',
      'mcp_servers.relative.url must be an http or https URL',
      'mcp_servers.file.url must be an http or https URL',
      'mcp_servers.bad.url must be an http or https URL, not 3',
      'mcp_servers.none must be a mapping',
      'mcp_tools.half needs func_name',
      'mcp_tools.crm has the name of an entry of mcp_servers; choose another',
      "toolsets.twice.overrides.a 'x' may be in only one of preset, defaults and hide",
    ]);
  });

  it('a prototype key is data', () => {
    const message = refusal('__proto__: { polluted: 1 }');
    expect(message).toContain('__proto__ is an unknown key');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(Object.keys(read('default_projects: { __proto__: main }').default_projects)).toEqual(['__proto__']);
  });
});
