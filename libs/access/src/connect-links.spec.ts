import { describe, expect, it } from 'vitest';
import { isReturnUrl } from './connect-links.js';

const BASE = 'https://fleet.example.com';

describe('addresses to which authorization servers send browsers back', () => {
  it('are the page of the source, and its path at loopback ports', () => {
    expect(isReturnUrl(`${BASE}/console/connected/mcp/crm`, BASE, 'mcp/crm')).toBe(true);
    expect(isReturnUrl('http://127.0.0.1:33418/connected/mcp/crm@acme', BASE, 'mcp/crm@acme')).toBe(true);
    expect(isReturnUrl('http://127.0.0.1:33418/connected/mcp/crm', undefined, 'mcp/crm')).toBe(true);
  });

  it.each([
    `${BASE}/console/connected/mcp/mail`,
    `${BASE}/console/connected/mcp/crm/`,
    `${BASE}/console/connected/mcp/crm?next=https://evil.example`,
    `${BASE}/console/connected`,
    `${BASE}.evil.example/console/connected/mcp/crm`,
    'http://127.0.0.1:33418/connected',
    'http://127.0.0.1:33418@evil.example/connected/mcp/crm',
    'http://127.0.0.1.evil.example:80/connected/mcp/crm',
    'http://localhost:33418/connected/mcp/crm',
    'https://evil.example/connected/mcp/crm',
    'undefined/console/connected/mcp/crm',
  ])('are not %s', (url) => {
    expect(isReturnUrl(url, BASE, 'mcp/crm')).toBe(false);
    expect(isReturnUrl(url, undefined, 'mcp/crm')).toBe(false);
  });
});
