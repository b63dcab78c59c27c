import { describe, expect, it } from 'vitest';
import { natsOptionsOf } from './nats-settings.js';

describe('settings of NATS', () => {
  it('become options', () => {
    const login = { NATS_USER: 'budget', NATS_PASSWORD: 'secret' };
    expect(natsOptionsOf({ NATS_URL: 'nats://h:1', ...login, NATS_TLS_CA: '/ca.pem' })).toEqual({
      url: 'nats://h:1',
      user: 'budget',
      password: 'secret',
      tlsCa: '/ca.pem',
    });
  });

  it('leave out what is absent or empty, so that the URL decides', () => {
    const none = { NATS_USER: undefined, NATS_PASSWORD: '' };
    expect(natsOptionsOf({ NATS_URL: 'nats://me:pw@h', ...none })).toEqual({ url: 'nats://me:pw@h' });
  });
});
