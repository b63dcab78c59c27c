import type { Json, JsonObject } from '@toolfleet/contracts';
import type { ExecMessage, ExecResponse } from '@toolfleet/contracts/execution';
import type { OpenApiBinding } from '@toolfleet/contracts/tool-definition';
import { EgressClient } from '@toolfleet/egress';
import { ExecutionGuard } from '@toolfleet/journal';
import { convertDocument, parseSpec, planJson } from '@toolfleet/openapi';
import { BreakerMap, SystemClock } from '@toolfleet/resilience';
import { SecretBox, secretContext, secretOpener, VariableExpander } from '@toolfleet/service';
import { startRecordingServer, type RecordingServer } from '@toolfleet/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Credentials } from './credentials.js';
import { ODD_ANSWERS, ODD_REFUSALS } from '../../../test/doubles/token-answers.js';
import { OAuthTokens } from './oauth-tokens.js';
import { OpenApiExecutor } from './openapi-executor.js';
import { VendorAdapters } from './vendor-adapters/find-adapter.js';

const clock = new SystemClock();
const KEY = 'a registry key of more than thirty-two characters';
const ENVIRONMENT = { API_TOKEN: 'canary-token-42', USER_NAME: 'ada', PASS: 'pass word' };
const warnings: unknown[] = [];

class CountingGuard extends ExecutionGuard {
  claimed = 0;
  override async claim(): Promise<void> {
    this.claimed += 1;
  }
}

describe('openapi-executor', () => {
  let upstream: RecordingServer;
  let egress: EgressClient;
  let executor: OpenApiExecutor;
  let breakers: BreakerMap;
  const guard = new CountingGuard();

  beforeAll(async () => {
    upstream = await startRecordingServer();
    egress = new EgressClient({ allowlist: [], allowedEndpoints: [upstream.url] });
  });
  beforeEach(() => {
    upstream.requests.length = 0;
    upstream.answerWith((_, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}'),
    );
    breakers = new BreakerMap({ consecutiveFailures: 5, recoveryMs: 60_000 }, clock);
    executor = new OpenApiExecutor(
      {
        egress,
        credentials: new Credentials(
          secretOpener({ kind: 'openapi', expander: new VariableExpander([], ENVIRONMENT), secretKey: KEY }),
          new OAuthTokens(egress, clock),
        ),
        clock,
      },
      breakers,
      new VendorAdapters({
        logger: { warn: (...args: unknown[]) => void warnings.push(args) },
        faults: { set: () => undefined },
      } as never),
    );
  });
  afterAll(async () => {
    await egress.close();
    await upstream.stop();
  });

  function message(operation: JsonObject, args: JsonObject, more: Partial<Operation> = {}): ExecMessage {
    const { path = '/p', method = 'get', options = {}, components = {}, context = {} } = more;
    const document = {
      openapi: '3.1.0',
      components,
      paths: { [path]: { [method]: { operationId: 'op', ...operation } } },
    };
    const tool = convertDocument(parseSpec(JSON.stringify(document)), { baseUrl: upstream.url }).tools[0]!;
    const binding: OpenApiBinding = {
      kind: 'openapi',
      collection: 'sample',
      baseUrl: tool.baseUrl()!,
      operationId: tool.operationId,
      method: tool.method,
      path: tool.path,
      plan: planJson(tool.plan()),
      options,
    };
    return {
      call_id: 'call-1',
      attempt: 1,
      fence: 1,
      journalled: more.journalled ?? false,
      tool: tool.name,
      revision: JSON.stringify(options),
      binding,
      arguments: args,
      context: { tenant_id: 't', ...context },
    };
  }
  interface Operation {
    path: string;
    method: string;
    options: JsonObject;
    components: JsonObject;
    context: JsonObject;
    journalled: boolean;
  }
  const run = (sent: ExecMessage): Promise<ExecResponse> =>
    guard.run(sent, (begin) =>
      executor.execute(sent, { remainingMs: 5_000, signal: AbortSignal.timeout(5_000), begin }),
    );

  it('hands the raw request target to the wire', async () => {
    const parameters: JsonObject[] = [
      { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
      { name: 'q', in: 'query', allowReserved: true, schema: { type: 'string' } },
    ];
    await run(message({ parameters }, { id: "it's/ä", q: "a'b" }, { path: '/p/{id}/x' }));
    expect(upstream.last().target).toBe("/p/it%27s%2F%C3%A4/x?q=a'b");
  });

  it.each([
    ['.', 'PATH_PARAM_UNSAFE'],
    ['..', 'PATH_PARAM_UNSAFE'],
    ['', 'PATH_PARAM_UNSAFE'],
  ])('refuses the path value "%s" before anything is sent', async (id, reason) => {
    const parameters = [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }];
    await expect(run(message({ parameters }, { id }, { path: '/p/{id}' }))).rejects.toMatchObject({
      code: 'ARGUMENTS_INVALID',
      details: { reason },
    });
    expect(upstream.requests).toHaveLength(0);
  });

  it('refuses line breaks in header values', async () => {
    const parameters = [{ name: 'X-A', in: 'header', schema: { type: 'string' } }];
    await expect(run(message({ parameters }, { 'X-A': 'a\r\nX-B: b' }))).rejects.toMatchObject({
      details: { reason: 'HEADER_VALUE_INVALID' },
    });
  });

  it('sends JSON, form, multipart, text and binary bodies', async () => {
    const post = async (content: JsonObject, body: Json) => {
      await run(message({ requestBody: { content, required: true } }, { body }, { method: 'post' }));
      return upstream.last();
    };
    const json = await post({ 'application/json': {} }, { a: [1, null] });
    expect([json.headers['content-type'], json.body.toString()]).toEqual(['application/json', '{"a":[1,null]}']);
    expect((await post({ 'application/x-www-form-urlencoded': {} }, { a: ['x', 'y'], b: '1 2' })).body.toString()).toBe(
      'a=x&a=y&b=1%202',
    );
    const schema = { properties: { f: { type: 'string', format: 'binary' }, meta: { type: 'object' } } };
    const file = { content_base64: 'aGkA', filename: 'h"i\r\n.bin', content_type: 'image/png' };
    const form = await post({ 'multipart/form-data': { schema } }, { f: file, meta: { a: 1 } });
    expect(form.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
    expect(form.body.toString('latin1')).toContain(
      'name="f"; filename="h%22i%0D%0A.bin"\r\nContent-Type: image/png\r\n\r\nhi\0\r\n',
    );
    expect(form.body.toString()).toContain('Content-Type: application/json\r\n\r\n{"a":1}');
    expect((await post({ 'text/plain': { schema: { type: 'string' } } }, 'plain')).body.toString()).toBe('plain');
    expect([...(await post({ 'application/octet-stream': {} }, '_-8=')).body]).toEqual([255, 239]);
  });

  it.each(['get', 'head', 'delete', 'options', 'trace', 'patch'])(
    'sends a body with %s when the document declares one',
    async (method) => {
      const requestBody = { content: { 'application/json': {} } };
      await run(message({ requestBody }, { body: { a: 1 } }, { method }));
      expect([upstream.last().method, upstream.last().body.toString()]).toEqual([method.toUpperCase(), '{"a":1}']);
      await run(message({ requestBody }, {}, { method }));
      expect(upstream.last().body).toHaveLength(0);
    },
  );

  it('reads JSON, text, binary and empty answers', async () => {
    const answer = async (type: string | undefined, body: string | Buffer, status = 200) => {
      upstream.answerWith((_, response) => response.writeHead(status, type ? { 'content-type': type } : {}).end(body));
      return run(message({}, {}));
    };
    expect((await answer('application/problem+json', '{"a":1}')).output).toEqual({ a: 1 });
    expect((await answer('text/plain; charset=iso-8859-1', Buffer.from([0xe9]))).output).toBe('é');
    expect((await answer('image/png', Buffer.from([1, 2]))).output).toEqual({
      content_base64: 'AQI=',
      content_type: 'image/png',
      bytes: 2,
    });
    expect(await answer(undefined, '', 204)).toMatchObject({ ok: true, output: null, metadata: { http_status: 204 } });
    expect((await answer('application/json', 'not json')).output).toBe('not json');
    // Ids of 64 bits keep their digits.
    expect((await answer('application/json', '{"id":9007199254740993,"n":[1.5,7]}')).output).toEqual({
      id: 9007199254740993n,
      n: [1.5, 7],
    });
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    const reply = await answer('application/json', deep);
    expect(reply.output).toBe(deep);
    expect(JSON.stringify(reply).length).toBeGreaterThan(deep.length); // a reply has to be written down
  });

  it('cuts answers at their cap and marks them', async () => {
    upstream.answerWith((_, response) => {
      const body = JSON.stringify('x'.repeat(50_000));
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
    });
    const reply = await run(message({}, {}, { options: { max_response_bytes: 10_000 } }));
    expect(reply.metadata).toMatchObject({ truncated: true, bytes: 10_000, total_bytes: 50_002 });
    expect(reply.output).toHaveLength(10_000);
    expect(reply.text.length).toBeLessThanOrEqual(6_000);
  });

  it.each([
    [404, false],
    [429, true],
    [503, true],
    [302, false],
  ])('turns HTTP %i into a typed failure', async (status, retryable) => {
    upstream.answerWith((_, response) =>
      response
        .writeHead(status, {
          'content-type': 'application/json',
          'retry-after': '2',
          location: 'http://other.test/?secret=1',
        })
        .end('{"error":"no such thing"}'),
    );
    const reply = await run(message({}, {}, { method: 'post' }));
    expect(reply).toMatchObject({ ok: false, output: { error: 'no such thing' }, retry_after_ms: 2_000 });
    expect(reply.failure).toMatchObject({ code: 'UPSTREAM_ERROR', retryable, details: { http_status: status } });
    if (status !== 302) expect(reply.failure?.message).toBe(`HTTP ${status}: {"error":"no such thing"}`);
    expect(JSON.stringify(reply.failure)).not.toContain('secret');
  });

  it('reports an upstream that cannot be reached or is not allowed', async () => {
    const away = message({}, {});
    (away.binding as OpenApiBinding).baseUrl = 'http://127.0.0.1:1';
    expect((await run(away)).failure).toMatchObject({ code: 'EGRESS_REFUSED' });
    upstream.answerWith((_, response) => response.destroy());
    expect((await run(message({}, {}))).failure).toMatchObject({ code: 'NETWORK_ERROR', retryable: true });
  });

  it('counts a call once, whatever number of attempts it takes, and for its tenant alone', async () => {
    upstream.answerWith((_, response) => response.writeHead(500).end());
    const call = async (tenant: string) => {
      for (const attempt of [1, 2, 3]) await run({ ...message({}, {}, { context: { tenant_id: tenant } }), attempt });
    };
    await call('two');
    for (let count = 0; count < 4; count += 1) await call('one');
    expect(breakers.getState(upstream.url)).toBe('closed');
    await run(message({}, {}, { context: { tenant_id: 'one' } }));
    expect([breakers.getState(upstream.url, 'one'), breakers.getState(upstream.url, 'two')]).toEqual([
      'open',
      'closed',
    ]);
    expect(await run(message({}, {}, { context: { tenant_id: 'two' } }))).toMatchObject({ ok: false });
  });

  it('opens the breaker of an origin after five failures in a row, never for 4xx', async () => {
    upstream.answerWith((_, response) => response.writeHead(404).end());
    for (let count = 0; count < 6; count += 1) await run(message({}, {}));
    expect(breakers.getState(upstream.url)).toBe('closed');
    upstream.answerWith((_, response) => response.writeHead(500).end());
    for (let count = 0; count < 5; count += 1) await run(message({}, {}));
    await expect(run(message({}, {}))).rejects.toMatchObject({
      code: 'BREAKER_OPEN',
      message: `Circuit breaker open for ${upstream.url} (too many failures)`,
    });
    expect(upstream.requests).toHaveLength(11);
  });

  it('counts silence against an origin only when it had the time its tool may take', async () => {
    upstream.answerWith(() => undefined);
    const silent = (deadlineShortened: boolean) =>
      Promise.all(
        Array.from({ length: 5 }, () =>
          executor.execute(
            { ...message({}, {}), deadlineShortened },
            { remainingMs: 100, signal: new AbortController().signal, begin: async () => undefined },
          ),
        ),
      );
    for (const reply of await silent(true)) expect(reply.failure).toMatchObject({ code: 'ATTEMPT_TIMED_OUT' });
    expect(breakers.getState(upstream.url)).toBe('closed');
    await silent(false);
    expect(breakers.getState(upstream.url)).toBe('open');
  });

  it('claims a journalled call once, right before it is sent', async () => {
    guard.claimed = 0;
    await run(message({}, {}, { method: 'post', journalled: true }));
    expect(guard.claimed).toBe(1);
  });

  describe('credentials', () => {
    const schemes = {
      securitySchemes: {
        token: { type: 'http', scheme: 'Bearer' },
        key: { type: 'apiKey', in: 'query', name: 'k' },
        login: { type: 'http', scheme: 'basic' },
        flow: { type: 'oauth2', flows: { clientCredentials: { tokenUrl: '/token', scopes: {} } } },
        curious: { type: 'oauth2', flows: { clientCredentials: { tokenUrl: '/to/${API_TOKEN}', scopes: {} } } },
      },
    };
    const secured = (security: Json, options: JsonObject) =>
      run(message({ security }, {}, { options, components: schemes }));

    it('expands variables inside longer values and keeps echoes of them from the model', async () => {
      upstream.answerWith((request, response) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(request.headers)),
      );
      const reply = await secured([{ token: [] }], {
        auth_type: 'bearer',
        auth_config: { token: '${API_TOKEN}' },
        extra_headers: { 'X-Trace': 'x-${API_TOKEN}-y' },
      });
      expect(upstream.last().headers.authorization).toBe('Bearer canary-token-42');
      expect(upstream.last().headers['x-trace']).toBe('x-canary-token-42-y');
      expect(JSON.stringify(reply)).not.toContain('canary-token-42');
    });

    it('opens sealed secrets of its own collection only', async () => {
      const box = new SecretBox(KEY);
      const sealed = (collection: string) => box.seal('sealed-secret', secretContext('openapi', collection));
      const basic = (password: string) => ({ auth_type: 'basic', auth_config: { username: '${USER_NAME}', password } });
      await secured([{ login: [] }], basic(sealed('sample')));
      expect(upstream.last().headers.authorization).toBe(`Basic ${btoa('ada:sealed-secret')}`);
      expect((await secured([{ login: [] }], basic(sealed('other')))).failure?.code).toBe('AUTH_NOT_CONFIGURED');
      const ofAcme = { ...basic(sealed('sample@acme')), registration: 'sample@acme' };
      expect((await secured([{ login: [] }], ofAcme)).failure).toBeUndefined();
      for (const registration of ['sample@globex', 'sample', undefined]) {
        const { failure } = await secured([{ login: [] }], { ...ofAcme, registration } as JsonObject);
        expect(failure?.code, registration).toBe('AUTH_NOT_CONFIGURED');
      }
    });

    it('takes the first set it can satisfy, and names what is missing otherwise', async () => {
      const options = { auth_type: 'api_key', auth_config: { api_key_value: '$API_TOKEN' } };
      await secured([{ token: [] }, { key: [] }], options);
      expect(upstream.last().target).toBe('/p?k=canary-token-42');
      await secured([], options);
      expect(upstream.last().target).toBe('/p');
      const unset = await secured([{ key: [] }], {
        auth_type: 'api_key',
        auth_config: { api_key_value: '${NOT_SET}' },
      });
      expect(unset.failure).toMatchObject({ code: 'AUTH_NOT_CONFIGURED', message: expect.stringContaining('NOT_SET') });
    });

    it('sends every credential of a set, each as its scheme requires', async () => {
      upstream.answerWith((request, response) =>
        response.writeHead(200).end(request.target === '/token' ? '{"access_token":"fresh"}' : '{}'),
      );
      const named = {
        token: { token: '$API_TOKEN' },
        login: { username: '$USER_NAME', password: '$PASS' },
        key: { value: 'k1' },
        flow: { client_id: 'c', client_secret: 's' },
      };
      const options = { auth_type: 'none', auth_config: { schemes: named } };
      await secured([{ token: [], key: [] }], options);
      expect(upstream.last()).toMatchObject({
        target: '/p?k=k1',
        headers: { authorization: 'Bearer canary-token-42' },
      });
      await secured([{ login: [] }], options);
      expect(upstream.last().headers.authorization).toBe(`Basic ${btoa('ada:pass word')}`);
      await secured([{ flow: ['read'] }], options);
      expect(upstream.last().headers.authorization).toBe('Bearer fresh');
      upstream.requests.length = 0;
      expect((await secured([{ curious: [], key: [] }], options)).failure).toMatchObject({
        code: 'AUTH_NOT_CONFIGURED',
        message: expect.stringContaining('no security requirement of the operation is configured completely') as string,
      });
      expect(upstream.requests).toEqual([]);
    });

    it('expands no variable that a document names', async () => {
      const options = { auth_type: 'oauth2', auth_config: { client_id: 'c', client_secret: 's' } };
      await secured([{ curious: [] }], options);
      const targets = upstream.requests.map(({ target }) => decodeURIComponent(target));
      expect(targets).toContain('/to/${API_TOKEN}');
      expect(JSON.stringify(upstream.requests)).not.toContain('canary-token-42');
    });

    it.each(ODD_ANSWERS)('reads a token with %s', async (_what, answer) => {
      upstream.answerWith((request, response) => {
        const { status = 200, headers, body } = answer('token-of-the-suite');
        if (request.target === '/token') return void response.writeHead(status, headers).end(body);
        response.writeHead(request.headers.authorization === 'Bearer token-of-the-suite' ? 200 : 401).end();
      });
      const options = { auth_type: 'oauth2', auth_config: { client_id: 'c', client_secret: 's' } };
      expect(await secured([{ flow: ['read'] }], options)).toMatchObject({ ok: true });
    });

    it.each(ODD_REFUSALS)('reads a refusal of its client %s', async (_what, { status = 200, headers, body }) => {
      upstream.answerWith((_request, response) => void response.writeHead(status, headers).end(body));
      const options = { auth_type: 'oauth2', auth_config: { client_id: 'c', client_secret: 's' } };
      expect(await secured([{ flow: ['read'] }], options)).toMatchObject({
        failure: { code: 'AUTH_NOT_CONFIGURED', message: expect.stringContaining('invalid_client') as string },
      });
    });

    it('fetches one OAuth token for many calls, and a fresh one after a 401', async () => {
      let issued = 0;
      let rejected = false;
      upstream.answerWith((request, response) => {
        if (request.target === '/token') {
          issued += 1;
          const token = { access_token: `token-number-${issued}`, expires_in: 3_600 };
          return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(token));
        }
        response.writeHead(rejected && request.headers.authorization === 'Bearer token-number-1' ? 401 : 200).end();
      });
      const options = {
        auth_type: 'oauth2',
        auth_config: { client_id: 'c:1', client_secret: '${PASS}', scope: 'a b' },
      };
      const call = () => secured([{ flow: ['read'] }], options);
      await Promise.all([call(), call(), call()]);
      expect(issued).toBe(1);
      const asked = upstream.requests.find((request) => request.target === '/token');
      expect(asked?.body.toString()).toBe('grant_type=client_credentials&scope=a+b');
      expect(asked?.headers.authorization).toBe(`Basic ${btoa('c%3A1:pass%20word')}`);
      rejected = true;
      expect(await call()).toMatchObject({ ok: true });
      expect(issued).toBe(2);
    });
  });

  it('applies the vendor adapter in any case and warns of an unknown one', async () => {
    const operation = { requestBody: { content: { 'application/json': {} } } };
    const body = { metrics: ['users', 'bounce'], timeRange: { start: '2024-01-01', end: '2024-02-01' } };
    const context = { prompt_params: { account_id: 'acc-1' } };
    const send = (vendor: string) =>
      run(message(operation, { body }, { method: 'post', options: { auth_config: { vendor } }, context }));
    await send('DataInsight');
    expect(JSON.parse(upstream.last().body.toString())).toEqual({
      metrics: ['di:unique_users', 'bounce'],
      timeRange: { startTime: '2024-01-01', endTime: '2024-02-01' },
      account_id: 'acc-1',
    });
    await send('nobody');
    expect(JSON.parse(upstream.last().body.toString())).toEqual(body);
    expect(warnings).toHaveLength(1);
  });
});
