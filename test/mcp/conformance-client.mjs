/**
 * The client side under the conformance suite: `conformance-client.mjs <server url>`, with the scenario in the environment.
 * Plain scenarios use the fleet's own code throughout: discovery, definitions as the registry builds them, and mcp-executor.
 * Scenarios that involve a person (login, elicitation) use the executor's transport and guarded fetch under the SDK's client,
 * because mcp-executor never interacts with a person.
 */
import {
  Client,
  discoverOAuthServerInfo,
  DpopSession,
  extractWWWAuthenticateParams,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { EgressClient, egressFetch } from '@toolfleet/egress';
import { BreakerMap, SystemClock } from '@toolfleet/resilience';
import { ScopedHttpTransport } from '../../apps/mcp-executor/dist/http-transport.js';
import { McpExecutor } from '../../apps/mcp-executor/dist/mcp-executor.js';
import { POOL_LIMITS, SessionPool } from '../../apps/mcp-executor/dist/session-pool.js';
import { toServerDefinitions } from '../../apps/registry/dist/sources/mcp-definitions.js';

const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? '';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const url = process.argv.at(-1);
const clock = new SystemClock();

/** Arguments for the tools of scenarios that provide none. */
function sampleArguments(name, found) {
  if (name === 'add_numbers') return { a: 5, b: 3 };
  if (name === 'json_schema_echo') return { schema: found.tools.find((tool) => tool.name !== name).input_schema };
  return undefined;
}

/** The suite starts servers on arbitrary ports: each loopback origin gets its own guarded client. */
const clients = new Map();
function egressFor(target) {
  const { origin, hostname } = new URL(String(target));
  if (!['localhost', '127.0.0.1'].includes(hostname)) throw new Error(`the suite uses an unexpected host: ${hostname}`);
  if (!clients.has(origin)) clients.set(origin, new EgressClient({ allowlist: [], allowedEndpoints: [origin] }));
  return clients.get(origin);
}
const guardedFetch = (input, init) => egressFetch(egressFor(input instanceof Request ? input.url : input))(input, init);

/** `oauth` of a server entry, as an operator would write it from the credentials of the scenario. */
function toOAuth({ client_id, client_secret, private_key_pem, signing_algorithm, valid_jwt, idp_id_token, ...idp }) {
  if (private_key_pem) return { client_id, private_key: private_key_pem, signing_algorithm };
  if (valid_jwt) return { client_id, assertion: valid_jwt };
  if (!idp_id_token) return { client_id, client_secret };
  const identity = { token_url: idp.idp_token_endpoint, client_id: idp.idp_client_id, id_token: idp_id_token };
  return { client_id, client_secret, identity };
}

/** The issuer that a server names, as an operator would look up and configure. */
async function discoverIssuer(target) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const refusal = await guardedFetch(target, { method: 'POST', headers, body });
  const { resourceMetadataUrl } = extractWWWAuthenticateParams(refusal);
  await refusal.body?.cancel();
  const found = await discoverOAuthServerInfo(target, { fetchFn: guardedFetch, resourceMetadataUrl });
  return found.authorizationServerMetadata?.issuer ?? String(found.authorizationServerUrl);
}

async function runWithFleetCode() {
  const egress = {
    check: (target) => egressFor(target).check(target),
    request: (request) => egressFor(request.url).request(request),
  };
  const deps = { egress, clock, expand: (value) => value, maxResponseBytes: 3_000_000 };
  const pool = new SessionPool({ ...deps, allowStdio: false, version: '0.1.0' }, undefined, POOL_LIMITS);
  const breakers = new BreakerMap({ consecutiveFailures: 5, recoveryMs: 60_000 }, clock);
  const executor = new McpExecutor(pool, breakers, deps, clock, {
    defaultIdleMs: 60_000,
  });
  const signal = new AbortController().signal;
  const entry = {
    name: 'suite',
    url,
    ...(context.client_id ? { oauth: { ...toOAuth(context), issuer: await discoverIssuer(url) } } : {}),
  };
  const found = await executor.discover({ server: 'suite', ...entry }, { timeoutMs: 60_000, signal });
  const definitions = toServerDefinitions(entry, found);
  const calls = context.toolCalls ?? definitions.map(({ binding }) => ({ name: binding.remoteName }));
  for (const { name, arguments: args } of calls) {
    const definition = definitions.find(({ binding }) => binding.remoteName === name);
    if (!definition) continue;
    const message = {
      call_id: crypto.randomUUID(),
      attempt: 1,
      fence: 1,
      journalled: false,
      tool: definition.name,
      revision: 'r',
      binding: definition.binding,
      arguments: args ?? sampleArguments(name, found) ?? {},
      context: { tenant_id: 't' },
    };
    console.error(JSON.stringify(await executor.execute(message, { remainingMs: 60_000, signal })));
  }
  await pool.close();
}

/** A client with a user who submits forms: empty in scenarios about defaults, else with sample values. */
function createInteractiveClient() {
  const client = new Client(
    { name: 'toolfleet-conformance', version: '0.1.0' },
    {
      capabilities: { elicitation: { form: { applyDefaults: true } } },
      versionNegotiation: { mode: 'auto' },
    },
  );
  client.setRequestHandler('elicitation/create', async ({ params }) => ({
    action: 'accept',
    content: scenario.includes('defaults') ? {} : sampleContent(params.requestedSchema),
  }));
  return client;
}

function sampleContent(schema) {
  const sample = { string: 'text', boolean: true, number: 1, integer: 1 };
  return Object.fromEntries(
    Object.entries(schema?.properties ?? {}).map(([name, { type }]) => [name, sample[type] ?? 'text']),
  );
}

async function runWithElicitation() {
  const client = createInteractiveClient();
  await client.connect(new ScopedHttpTransport(new URL(url), { fetch: guardedFetch }));
  const { tools } = await client.listTools();
  for (const { name } of tools) console.error(name, JSON.stringify(await client.callTool({ name, arguments: {} })));
  await client.close();
}

/** The suite's authorization server redirects at once: following that redirect is the login. */
class Login {
  redirectUrl = 'http://localhost:3000/callback';
  clientMetadataUrl = 'https://conformance-test.local/client-metadata.json';
  clientMetadata = {
    client_name: 'toolfleet-conformance',
    redirect_uris: [this.redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  };
  answer;
  /** Credentials belong to the authorization server that issued them (SEP-2352). */
  #byIssuer = new Map();
  #latest = {};
  #verifier;
  /** DPoP is offered in metadata only; requesting bound tokens where it is not offered is harmless. */
  #key = scenario.startsWith('auth/dpop') ? DpopSession.create() : undefined;
  constructor(registered) {
    if (this.#key) this.dpop = () => this.#key;
    if (registered.client_id) this.#latest.information = { ...registered, redirect_uris: [this.redirectUrl] };
  }
  #at(issuer) {
    if (issuer === undefined) return this.#latest;
    if (!this.#byIssuer.has(issuer)) this.#byIssuer.set(issuer, this.#byIssuer.size === 0 ? this.#latest : {});
    return (this.#latest = this.#byIssuer.get(issuer));
  }
  clientInformation = (at) => this.#at(at?.issuer).information;
  saveClientInformation = (information, at) => void (this.#at(at?.issuer).information = information);
  tokens = (at) => this.#at(at?.issuer).tokens;
  saveTokens = (tokens, at) => void (this.#at(at?.issuer).tokens = tokens);
  codeVerifier = () => this.#verifier;
  saveCodeVerifier = (verifier) => void (this.#verifier = verifier);
  async redirectToAuthorization(target) {
    const response = await guardedFetch(target, { redirect: 'manual' });
    this.answer = new URL(response.headers.get('location'), target).searchParams;
    await response.body?.cancel();
  }
}

async function runWithLogin() {
  const login = new Login(
    context.client_id ? { client_id: context.client_id, client_secret: context.client_secret } : {},
  );
  let client;
  let transport;
  const steps = [
    async () => {
      client = new Client(
        { name: 'toolfleet-conformance', version: '0.1.0' },
        { versionNegotiation: { mode: 'auto' } },
      );
      transport = new ScopedHttpTransport(new URL(url), { fetch: guardedFetch, authProvider: login });
      await client.connect(transport);
    },
    () => client.listTools(),
    () => client.callTool({ name: 'test-tool', arguments: {} }),
  ];
  let logins = 0;
  for (const step of steps) {
    for (;;) {
      try {
        await step();
        break;
      } catch (error) {
        const needsLogin = error instanceof UnauthorizedError || error?.cause instanceof UnauthorizedError;
        if (!needsLogin || !login.answer || logins >= 2) throw error;
        logins += 1;
        const answer = login.answer;
        login.answer = undefined;
        await transport.finishAuth(answer);
      }
    }
  }
  await client.close();
}

const WITHOUT_PERSON = /client-credentials|wif-jwt-bearer|enterprise-managed/;
const PERSON = new Set(['elicitation-sep1034-client-defaults', 'sep-2322-client-request-state']);
try {
  if (scenario.startsWith('auth/') && !WITHOUT_PERSON.test(scenario)) await runWithLogin();
  else if (PERSON.has(scenario)) await runWithElicitation();
  else await runWithFleetCode();
  process.exit(0);
} catch (error) {
  console.error(error);
  process.exit(1);
}
