/** What users of OpenAPI documents rely on: one tool per operation, the request that the document describes, vendor adapters. */
import { excluding, including, present } from '../expectation.mjs';

const id = { name: 'id', in: 'path', required: true, schema: { type: 'integer' } };
const responses = { 200: { description: 'ok' } };

/** A document with a reference that needs unescaping, a recursive schema, and an operation with a remote reference. */
function document(origin) {
  const jsonBody = (name) => ({
    content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } },
  });
  return JSON.stringify({
    openapi: '3.1.0',
    info: { title: 'Pets', version: '1' },
    servers: [{ url: origin }],
    paths: {
      '/pets/{id}': {
        get: {
          operationId: 'getPet',
          summary: 'Read one pet',
          parameters: [id, { name: 'tag', in: 'query', schema: { $ref: '#/components/schemas/Tag~1name' } }],
          responses,
        },
        post: {
          operationId: 'savePet',
          summary: 'Save one pet',
          parameters: [id],
          requestBody: jsonBody('Pet'),
          responses,
        },
      },
      '/reports/{id}': {
        post: {
          operationId: 'report',
          summary: 'A report',
          parameters: [id],
          requestBody: jsonBody('Report'),
          responses,
        },
      },
      '/remote': {
        get: {
          operationId: 'remote',
          parameters: [{ name: 'x', in: 'query', schema: { $ref: 'https://example.com/x.json' } }],
          responses,
        },
      },
    },
    components: {
      schemas: {
        'Tag/name': { type: 'string', maxLength: 20 },
        Pet: { type: 'object', properties: { parent: { $ref: '#/components/schemas/Pet' }, name: { type: 'string' } } },
        Report: { type: 'object', properties: { metrics: { type: 'array' }, timeRange: { type: 'object' } } },
      },
    },
  });
}

/** Registers the document; resolves with the prefix of its tools and the answer, when they are listed. */
async function register(fleet, settings = {}) {
  const name = fleet.fresh('pets').replaceAll('-', '_');
  const { origin } = fleet.upstreams.echo;
  const answer = await fleet.http('/api/v1/sources/openapi', {
    body: { name, spec_inline: document(origin), base_url: origin, name_prefix: `${name}_`, ...settings },
  });
  if (answer.status !== 201) throw new Error(`${answer.status} ${answer.body?.error ?? answer.text}`);
  const first = `${name}_getPet`;
  await fleet.until(`${first} is known`, async () => (await fleet.http(`/api/v1/tools/${first}`)).status !== 404);
  return { prefix: `${name}_`, answer };
}

export default {
  group: 'OpenAPI tools',
  probes: [
    {
      name: 'one tool per operation',
      reliance: 'operationId is the name, summary the description, parameters the schema with resolved references',
      expected: {
        name: /_getPet$/,
        description: 'Read one pet',
        parameters: {
          required: ['id'],
          properties: { id: { type: 'integer' }, tag: { type: 'string', maxLength: 20 } },
        },
      },
      async see(fleet) {
        const { prefix } = await register(fleet, { schema_style: 'inline' });
        return (await fleet.http(`/tools/${prefix}getPet/schema`)).body;
      },
      needs: 'own',
    },
    {
      name: 'a call',
      reliance: 'the request of the operation, with path and encoded query',
      expected: { success: true, output: { method: 'GET', path: '/pets/7?tag=x%20y' }, metadata: { http_status: 200 } },
      async see(fleet) {
        const { prefix } = await register(fleet);
        return (await fleet.call(`${prefix}getPet`, { id: 7, tag: 'x y' })).body;
      },
      needs: 'own',
    },
    {
      name: 'a reference to another document',
      reliance: 'the operation is refused with the advice to bundle; the others are registered',
      expected: {
        success: true,
        operations_registered: excluding('remote'),
        refused: [{ code: 'REMOTE_REF_UNSUPPORTED', message: /bundle/ }],
      },
      see: async (fleet) => (await register(fleet)).answer.body,
      needs: 'own',
    },
    {
      name: 'a recursive schema',
      reliance: 'it stays a reference inside $defs',
      expected: { Pet: { properties: { parent: { $ref: '#/$defs/Pet' } } } },
      async see(fleet) {
        const { prefix } = await register(fleet);
        return (await fleet.http(`/tools/${prefix}savePet/schema`)).body.parameters.$defs;
      },
      needs: 'own',
    },
    {
      name: 'Swagger 1.2',
      reliance: 'refused with the reason',
      expected: { status: 422, body: { code: 'SPEC_INVALID', details: { reason: 'SPEC_VERSION_UNSUPPORTED' } } },
      see: (fleet) => fleet.http('/api/v1/sources/openapi', { body: { name: 'old', spec_inline: 'swagger: "1.2"' } }),
    },
    {
      name: 'a document that is neither JSON nor YAML',
      reliance: 'refused with the reason',
      expected: { status: 422, body: { code: 'SPEC_INVALID', details: { reason: 'SPEC_PARSE_ERROR' } } },
      see: (fleet) => fleet.http('/api/v1/sources/openapi', { body: { name: 'broken', spec_inline: 'a: [b' } }),
    },
    {
      name: 'a document on a host that is not allowed',
      reliance: 'it is not fetched',
      expected: { status: 422, body: { details: { reason: 'SPEC_FETCH_REFUSED' } } },
      see: (fleet) =>
        fleet.http('/api/v1/sources/openapi', { body: { name: 'far', spec_url: 'https://far.example/openapi.json' } }),
    },
    {
      name: 'a credential',
      reliance: 'it reaches the upstream and no result',
      expected: { sent: 'Bearer token-of-upstream', shown: 'Bearer [redacted]' },
      async see(fleet) {
        const { prefix } = await register(fleet, { auth_type: 'bearer', auth_config: { token: 'token-of-upstream' } });
        const { body } = await fleet.call(`${prefix}getPet`, { id: 8 });
        const sent = fleet.upstreams.echo.requests.findLast(({ path }) => path === '/pets/8');
        return { sent: sent.headers.authorization, shown: body.output.headers.authorization };
      },
      needs: 'own',
    },
    {
      name: 'the datainsight adapter, named in any case',
      reliance: 'metrics are renamed, the time range is moved, account_id comes from the context of the prompt',
      expected: {
        metrics: ['di:unique_users', 'di:total_sessions', 'other'],
        timeRange: { startTime: 'a', endTime: 'b' },
        account_id: 'acc-1',
      },
      async see(fleet) {
        const { prefix } = await register(fleet, { auth_config: { vendor: 'DataInsight' } });
        const body = { metrics: ['users', 'sessions', 'other'], timeRange: { start: 'a', end: 'b' } };
        const answer = await fleet.nats('tool.call', {
          name: `${prefix}report`,
          arguments: { id: 1, body },
          prompt_params: { account_id: 'acc-1' },
        });
        return answer.body.output?.body;
      },
      needs: 'own',
    },
    {
      name: 'an unknown vendor',
      reliance: 'calls go on without an adapter',
      expected: { success: true, output: { path: '/pets/9' } },
      async see(fleet) {
        const { prefix } = await register(fleet, { auth_config: { vendor: 'nobody-knows' } });
        return (await fleet.call(`${prefix}getPet`, { id: 9 })).body;
      },
      needs: 'own',
    },
    {
      name: 'methods and idempotency',
      reliance: 'GET is idempotent and retried on network errors, POST is neither',
      expected: { get: { idempotent: true, attempts: 3 }, post: { idempotent: false, attempts: 1 } },
      async see(fleet) {
        const { prefix } = await register(fleet);
        const plan = async (tool, args) => {
          const { body } = await fleet.call(`${prefix}${tool}`, args, { fields: { dry_run: true } });
          return { idempotent: body.output?.idempotent, attempts: body.output?.max_attempts };
        };
        return { get: await plan('getPet', { id: 1 }), post: await plan('savePet', { id: 1, body: {} }) };
      },
      needs: 'own',
    },
    {
      name: 'POST /tools/openapi/validate',
      reliance: 'lists operations and errors and registers nothing',
      expected: { valid: true, operations_count: 3, base_url: present, errors: [/REMOTE_REF_UNSUPPORTED/] },
      async see(fleet) {
        const { origin } = fleet.upstreams.echo;
        const body = { name: 'checked', spec_inline: document(origin), base_url: origin };
        return (await fleet.http('/tools/openapi/validate', { body })).body;
      },
      needs: 'own',
    },
    {
      name: 'an override by operation',
      reliance: 'a pattern changes single operations',
      expected: { save: 403, get: 200 },
      async see(fleet) {
        const { prefix } = await register(fleet, { overrides: { savePet: { dangerous: true } } });
        const save = await fleet.call(`${prefix}savePet`, { id: 1, body: {} });
        return { save: save.status, get: (await fleet.call(`${prefix}getPet`, { id: 1 })).status };
      },
      needs: 'own',
    },
    {
      name: 'the list of the sample service',
      reliance: 'every operation of a document read from a URL is a tool with the prefix of its entry',
      expected: including('parcels_getParcel', 'parcels_createParcel', 'parcels_cancelParcel'),
      see: async (fleet) => (await fleet.http('/tools/list?category=logistics')).body,
      needs: 'own',
    },
  ],
};
