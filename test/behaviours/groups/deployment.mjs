/** What operators of a deployment rely on: secrets, manifests, endpoints and defaults that need no running call. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { including, present } from '../expectation.mjs';

const read = (fleet, path) => readFileSync(join(fleet.root, path), 'utf8');

export default {
  group: 'deployment',
  probes: [
    {
      name: '.env',
      reliance: 'files with secrets cannot be committed',
      expected: including('.env', '.env.*', '.secrets/'),
      see: async (fleet) => read(fleet, '.gitignore').split('\n'),
    },
    {
      name: 'the policy file',
      reliance: 'package tools, with the rule for file_write',
      expected: including('package tools', 'file_write requires admin role'),
      see: async (fleet) => read(fleet, 'deploy/policies/tools.rego'),
    },
    {
      name: 'the API document',
      reliance: 'GET /openapi.json describes the public endpoints',
      expected: {
        openapi: /^3\.1/,
        paths: including('/api/v1/tools', '/api/v1/tools/{name}', '/api/v1/tools/{name}/execute'),
      },
      async see(fleet) {
        const { body } = await fleet.http('/openapi.json');
        return { openapi: body.openapi, paths: Object.keys(body.paths) };
      },
    },
    {
      name: 'the default port',
      reliance: 'the gateway listens on 8080 unless GATEWAY_PORT says otherwise',
      expected: including('| `GATEWAY_PORT` | integer | 8080 |'),
      see: async (fleet) => read(fleet, 'docs/configuration.md'),
    },
    {
      name: 'published defaults of the configuration',
      reliance: 'limits, breakers and budgets of the specification are the defaults',
      expected: {
        MCP_RATE_LIMIT_DEFAULT: '60',
        MCP_CB_FAILURES: '5',
        MCP_CB_RECOVERY_SECONDS: '60',
        WEB_SEARCH_RATE_LIMIT: '120',
        CALCULATOR_RATE_LIMIT: '2000',
        PYTHON_EXECUTOR_RATE_LIMIT: '60',
        WASI_MEMORY_LIMIT_MB: '512',
        WASI_TIMEOUT_SECONDS: '60',
        ENFORCE_CB_ERROR_THRESHOLD: '0.5',
        ENFORCE_CB_WINDOW_SECONDS: '30',
        ENFORCE_CB_MIN_REQUESTS: '20',
        MAX_COST_PER_REQUEST: '0.5',
        MAX_TOKENS_PER_REQUEST: '10000',
        TOKEN_BUDGET_PER_AGENT: '5000',
        TOKEN_BUDGET_PER_TASK: '20000',
        TOOL_PARALLELISM: '5',
        GATEWAY_CALL_TIMEOUT_MS: '120000',
      },
      async see(fleet) {
        const rows = read(fleet, 'docs/configuration.md').matchAll(/^\| `([A-Z0-9_]+)` \| [^|]+ \| ([^|]*) \|/gm);
        return Object.fromEntries([...rows].map(([, key, value]) => [key, value.trim()]));
      },
    },
    {
      name: 'the console',
      reliance: 'the gateway serves it below /console',
      expected: { status: 200, text: /<html/i, type: present },
      async see(fleet) {
        const { status, text, headers } = await fleet.http('/console/');
        return { status, text, type: headers['content-type'] };
      },
    },
  ],
};
