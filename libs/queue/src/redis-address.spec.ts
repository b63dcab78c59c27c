import { describe, expect, it } from 'vitest';
import { parseAddress, publicAddress } from './redis-address.js';

describe('REDIS_URL', () => {
  it.each([
    ['redis://h', { kind: 'single', tls: false, nodes: [{ host: 'h', port: 6379 }] }],
    [
      'rediss://me:p%40ss@h:1/3',
      { kind: 'single', tls: true, username: 'me', password: 'p@ss', db: 3, nodes: [{ host: 'h', port: 1 }] },
    ],
    ['redis://:pw@[::1]:7', { kind: 'single', password: 'pw', nodes: [{ host: '::1', port: 7 }] }],
    [
      'redis+cluster://a:1,b',
      {
        kind: 'cluster',
        nodes: [
          { host: 'a', port: 1 },
          { host: 'b', port: 6379 },
        ],
      },
    ],
    [
      'rediss+cluster://u:p@a:1,rediss+cluster://u:p@b:2',
      {
        kind: 'cluster',
        tls: true,
        username: 'u',
        nodes: [
          { host: 'a', port: 1 },
          { host: 'b', port: 2 },
        ],
      },
    ],
    [
      'redis+sentinel://a,b:2/primary/4',
      {
        kind: 'sentinel',
        master: 'primary',
        db: 4,
        nodes: [
          { host: 'a', port: 26_379 },
          { host: 'b', port: 2 },
        ],
      },
    ],
    ['redis+sentinel://a', { kind: 'sentinel', master: 'mymaster' }],
    [
      'redis+sentinel://a/4?name=primary',
      { kind: 'sentinel', master: 'primary', db: 4, nodes: [{ host: 'a', port: 26_379 }] },
    ],
  ])('%s', (url, expected) => expect(parseAddress(url)).toMatchObject(expected));

  it.each([
    ['http://h', 'not a Redis address'],
    ['redis:h', 'not a Redis address'],
    ['redis://', 'not a Redis address'],
    ['redis://h:port', 'a host'],
    ['redis+cluster://a:6379,b:70000', 'a host'],
    ['redis+cluster://a:6379/3', 'no numbered databases'],
    ['redis://h/zero', 'not a database number'],
    ['redis+sentinel://a/primary/x', 'not a database number'],
    ['redis+sentinel://a?master=primary', 'unknown parameter master'],
    ['redis+cluster://a?name=x', 'unknown parameter name'],
  ])('%s is refused permanently: %s', (url, why) => {
    const parsed = (): unknown => parseAddress(url);
    expect(parsed).toThrow(expect.objectContaining({ startRefused: true, message: expect.stringContaining(why) }));
    expect(parsed).toThrow(/^REDIS_URL: /);
  });

  it('is shown without its logins', () => {
    const shown = publicAddress('redis+cluster://u:secret-1@a:1,redis+cluster://u:secret-2@b:2,u:secret-3@c/0');
    expect(shown).toBe('redis+cluster://a:1,redis+cluster://b:2,c/0');
    expect(() => parseAddress('redis://u:secret-1@h:port')).not.toThrow(/secret-1/);
  });
});
