import { describe, expect, it } from 'vitest';
import { toNatsOptions } from './nats-options.js';

describe('NATS settings', () => {
  it('become options', () => {
    const settings = { NATS_URL: 'nats://h:1', NATS_USER: 'budget', NATS_PASSWORD: 'secret', NATS_TLS_CA: '/ca.pem' };
    const { password, ...rest } = toNatsOptions(settings);
    expect(rest).toEqual({ url: 'nats://h:1', user: 'budget', tlsCa: '/ca.pem' });
    expect(password).toBeTypeOf('function');
    settings.NATS_PASSWORD = 'changed';
    expect(typeof password === 'function' && password()).toBe('changed');
  });

  it('treat empty values as unset, so that the URL decides', () => {
    const none = { NATS_USER: undefined, NATS_PASSWORD: '' };
    expect(toNatsOptions({ NATS_URL: 'nats://me:pw@h', ...none })).toEqual({ url: 'nats://me:pw@h' });
  });
});
