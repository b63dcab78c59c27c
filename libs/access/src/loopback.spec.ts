import { describe, expect, it } from 'vitest';
import type { Principal } from '@toolfleet/contracts';
import { authenticateRequest } from './authenticate.js';
import { hostName } from './loopback.js';

describe('the name in Host', () => {
  it.each([
    ['localhost', 'localhost'],
    ['LOCALHOST:8080', 'localhost'],
    ['[::1]:8080', '[::1]'],
    ['tools.example.com:443', 'tools.example.com'],
    ['localhost:99999', undefined],
    ['localhost:', undefined],
    ['localhost:80:80', undefined],
    ['a b', undefined],
    ['user@localhost', undefined],
    ['localhost/path', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('%j is %j', (header, name) => expect(hostName(header)).toBe(name));
});

describe('a request without a credential, where those are accepted', () => {
  const developer: Principal = { tenantId: 'local', userId: 'dev', roles: [], tools: ['*'], via: 'local' };
  const ask = (...headers: string[]) => authenticateRequest(async () => developer, headers);

  it.each([
    [['Host', 'localhost:8080']],
    [['Host', '127.0.0.1:8080', 'Origin', 'http://localhost:3000']],
    [['host', '[::1]:8080', 'origin', 'http://[::1]:8080']],
  ])('is the developer for %j', async (headers) => expect(await ask(...headers)).toBe(developer));

  it.each([
    [['Host', 'rebound.example:8080']],
    [['Host', 'localhost.example']],
    [['Host', 'localhost:8080', 'Origin', 'https://evil.example']],
    [['Host', 'localhost:8080', 'Origin', 'null']],
    [['Host', 'localhost:8080', 'Host', 'evil.example']],
    [['Host', 'localhost:8080', 'Host', 'localhost:8080']],
    [[]],
  ])('is refused for %j', async (headers) =>
    expect(ask(...headers)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' }),
  );

  it('is authenticated by its credential from any host', async () => {
    expect(await ask('Host', 'tools.example.com', 'Authorization', 'Bearer x')).toBe(developer);
  });
});
