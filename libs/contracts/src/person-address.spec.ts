import { expect, it } from 'vitest';
import { addressFault } from './person-address.js';

it.each([
  'https://login.example.com/start?x=1#y',
  'HTTPS://login.example.com',
  'http://localhost:8080/callback',
  'http://127.0.0.1:9/',
  'http://[::1]/',
])('%s may be opened', (address) => expect(addressFault(address)).toBeUndefined());

it.each([
  ['javascript:alert(1)', 'its scheme is javascript'],
  ['java\nscript:alert(1)', 'its scheme is javascript'],
  [' JavaScript:alert(1)', 'its scheme is javascript'],
  ['data:text/html,<script>', 'its scheme is data'],
  ['file:///etc/passwd', 'its scheme is file'],
  ['vscode://x', 'its scheme is vscode'],
  ['http://login.example.com', 'its scheme is http'],
  ['http://127.0.0.1.example.com', 'its scheme is http'],
  ['https://bank.example.com@evil.example', 'user name'],
  ['/relative', 'not an absolute URL'],
  ['', 'not an absolute URL'],
])('%j may not: %s', (address, reason) => expect(addressFault(address)).toContain(reason));
