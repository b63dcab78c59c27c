import type { Logger } from '@toolfleet/telemetry';
import { describe, expect, it } from 'vitest';
import { logRequest, type OutgoingRequest } from './send-request.js';

const logged = (request: Partial<OutgoingRequest>): unknown => {
  const lines: unknown[] = [];
  const logger = { info: (facts: unknown) => void lines.push(facts) } as unknown as Logger;
  logRequest(logger)(
    { method: 'POST', origin: 'https://api.test', target: '/', headers: {}, ...request },
    'crm_create',
  );
  return lines[0];
};

const typed = (type: string, body: string) => logged({ headers: { 'content-type': type }, body });

describe('the log of requests', () => {
  it('masks headers and query parameters by their names', () => {
    expect(
      logged({ target: '/a?page=2&access_token=t1&q=x', headers: { 'x-api-key': 'k1', cookie: 'c=1', accept: '*/*' } }),
    ).toEqual({
      tool: 'crm_create',
      method: 'POST',
      origin: 'https://api.test',
      target: '/a?page=2&access_token=***&q=x',
      headers: { 'x-api-key': '***', cookie: '***', accept: '*/*' },
      body: undefined,
    });
  });

  it.each([
    [
      'JSON of any depth and type',
      'application/json',
      '{"name":"a\\"b","password":"p1","inner":[{"api_key":42,"client_secret":{"value":"s1"}}],"token":null}',
      '{"name":"a\\"b","password":"***","inner":[{"api_key":"***","client_secret":"***"}],"token":"***"}',
    ],
    [
      'a form',
      'application/x-www-form-urlencoded',
      'password=p1&name=ada&client_secret=s1',
      'password=***&name=ada&client_secret=***',
    ],
    ['other text', 'application/xml', '<password>p1</password>', '23 characters'],
    ['what is not JSON', 'application/json', '{"password":"p1"', '16 characters'],
  ])('masks the body: %s', (_, type, body, shown) => {
    expect(typed(type, body)).toMatchObject({ body: shown });
  });

  it('shows the size of bytes, and at most 2,000 characters', () => {
    expect(logged({ body: new Uint8Array(7) })).toMatchObject({ body: '7 bytes' });
    const { body } = typed('application/json', JSON.stringify('x'.repeat(5_000))) as { body: string };
    expect(body).toHaveLength(2_000);
  });
});
