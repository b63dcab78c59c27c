import type { Command, CommandTable } from './command.js';

/** Every command by name, in the order of the help. */
const SUMMARIES = {
  tools: 'List or find the tools that you may call, or print stubs or types of them for programs',
  describe: 'Show what a tool does and its arguments',
  call: 'Call a tool and show its result',
  calls: 'Find, show, follow and export calls; cancel one that runs in the background',
  usage: 'Show the usage of your tenant, a forecast, what is left of its budgets, and bills; operators also of others',
  budgets:
    'Show limits and what is spent of them; set limits of users and keys (administrators) and tenants (operators)',
  keys: 'Manage API keys: your own; administrators those of their tenant, operators all',
  sessions: 'Sign-ins of people, in browsers and MCP clients: your own, administrators those of their tenant',
  connections: 'Your accounts at sources whose tools act as you',
  sources: 'Manage sources of tools: administrators of their tenant, operators of all',
  approvals: 'Decide on calls that wait for a person, and on tools that changed or look suspicious',
  toolsets: 'Manage selections of tools for agents: administrators of their tenant, operators of all',
  rules: 'Show what a rule would have done to recorded calls, before it is saved (administrators; policies: operators)',
  webhooks: 'Manage endpoints that events are posted to (administrators)',
  apply: 'Make sources, toolsets, rights of keys, budgets and webhooks what files say; check policies',
  export: 'Print sources, toolsets, rights of keys, budgets and webhooks as YAML for apply, without secrets',
  tenants: 'List, create, limit and remove tenants (operators); show your own (administrators)',
  users:
    'End all access of a user within 5 seconds: sign-ins, MCP clients, keys (administrators of their tenant); data stays',
  'user purge': 'Remove all data of one user of a tenant (administrators of the tenant)',
  health: 'Show whether the fleet is ready for calls, and to operators what is wrong with its configuration',
  audit: 'Show lines of the audit log that are cut, changed, moved or missing',
  'tool new': 'Generate the file of a tool of your own',
  openapi: 'Show the tools of an OpenAPI document, or the request of a call',
  check: 'Check a configuration file as the services do; needs no fleet',
  config: 'Show or change the connection kept in your configuration folder',
  completion: 'Print a shell script that completes commands, tools, arguments and their values',
};

/** The code of a command is loaded when it is asked for. */
const CODE: Record<keyof typeof SUMMARIES, () => Promise<Command>> = {
  tools: async () => (await import('./commands/tools.js')).tools,
  describe: async () => (await import('./commands/tools.js')).describe,
  call: async () => (await import('./commands/call.js')).call,
  calls: async () => (await import('./commands/calls.js')).calls,
  usage: async () => (await import('./commands/usage.js')).usage,
  budgets: async () => (await import('./commands/budgets.js')).budgets,
  keys: async () => (await import('./commands/keys.js')).keys,
  sessions: async () => (await import('./commands/sessions.js')).sessions,
  connections: async () => (await import('./commands/connections.js')).connections,
  sources: async () => (await import('./commands/sources.js')).sources,
  approvals: async () => (await import('./commands/approvals.js')).approvals,
  toolsets: async () => (await import('./commands/toolsets.js')).toolsets,
  rules: async () => (await import('./commands/rules.js')).rules,
  webhooks: async () => (await import('./commands/webhooks.js')).webhooks,
  apply: async () => (await import('./commands/apply.js')).apply,
  export: async () => (await import('./commands/export.js')).exportFleet,
  tenants: async () => (await import('./commands/tenants.js')).tenants,
  users: async () => (await import('./commands/users.js')).users,
  'user purge': async () => (await import('./commands/purge.js')).userPurge,
  health: async () => (await import('./commands/health.js')).health,
  audit: async () => (await import('./commands/audit.js')).audit,
  'tool new': async () => (await import('./commands/tool-new.js')).toolNew,
  openapi: async () => (await import('./commands/openapi.js')).openapi,
  check: async () => (await import('./commands/check.js')).check,
  config: async () => (await import('./commands/config.js')).config,
  completion: async () => (await import('./commands/completion.js')).completion,
};

export const COMMANDS: CommandTable = new Map(
  Object.entries(SUMMARIES).map(([name, summary]) => [name, { summary, load: CODE[name as keyof typeof SUMMARIES] }]),
);
