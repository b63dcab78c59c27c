/** The connect page in a real Chromium: users connect accounts by links of errors, by a key and at a real authorization server. */
import { fileURLToPath } from 'node:url';
import { freePort } from '@toolfleet/testing';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startAuthorizationServer, type AuthorizationServer } from '../../apps/identity/spec/authorization-server.mjs';
import { startAccountServer, type AccountServer } from '../fleet/account-server.js';
import { TestFleet } from '../fleet/test-fleet.js';
import { findChromium, launchChromium } from './chromium.js';
import { ConsolePage } from './console-page.js';

const CHROMIUM = findChromium();
const DISCOVERY_KEY = 'the-key-of-the-source-0123456789';
const ANN = 'key-of-ann-4f1b2c3d4e5f60718293';

describe.skipIf(CHROMIUM === undefined)('the connect page', () => {
  let login: AuthorizationServer;
  let upstream: AccountServer;
  let fleet: TestFleet;
  let browser: Browser;
  const tabs: ConsolePage[] = [];

  beforeAll(async () => {
    const port = await freePort();
    const origin = `http://127.0.0.1:${port}`;
    login = await startAuthorizationServer([`${origin}/console/connected/mcp/mine`]);
    upstream = await startAccountServer((token) => login.accountOf(token));
    upstream.accounts.set(DISCOVERY_KEY, 'the source').set(ANN, 'ann@accounts');
    const url = `${upstream.origin}/mcp`;
    const headers = { Authorization: DISCOVERY_KEY };
    const user = { mode: 'connect', issuer: login.issuer, client_id: 'fleet', client_secret: '${CLIENT_SECRET}' };
    browser = await launchChromium(CHROMIUM!);
    fleet = await TestFleet.start({
      services: { gateway: 1, registry: 1, budget: 1, records: 1, identity: 1, 'mcp-executor': 1 },
      together: true,
      tools: ['accounts_whoami', 'mine_whoami'],
      config: {
        mcp_servers: {
          accounts: { url, headers, auth: { user: { mode: 'api_key', help: 'Settings, then Keys' } } },
          mine: { url, headers, auth: { user: { ...user, scopes: ['openid', 'offline_access'] } } },
        },
      },
      env: { EGRESS_ALLOWED_ENDPOINTS: `${upstream.origin},${login.issuer}` },
      envOf: {
        gateway: {
          GATEWAY_PORT: String(port),
          GATEWAY_PUBLIC_URL: origin,
          CONSOLE_DIR: fileURLToPath(new URL('../../apps/console/dist/web', import.meta.url)),
        },
        identity: { CLIENT_SECRET: 'secret-of-the-fleet' },
      },
    });
  });
  afterEach(async () => {
    await Promise.all(tabs.splice(0).map((tab) => tab.close()));
  });
  afterAll(async () => {
    await browser?.close();
    await fleet?.stop();
    await upstream?.stop();
    await login?.stop();
  });

  const linkOf = async (tool: string, key: string) => String((await fleet.call(tool, {}, { key })).body.details.url);
  /** Opens a link in a tab of its own and signs in with a key. */
  async function open(link: string, key: string) {
    const tab = await ConsolePage.open(browser, fleet.url());
    tabs.push(tab);
    await tab.page.goto(link);
    await tab.signIn(key);
    await tab.page.getByRole('heading', { level: 1, name: 'Connections' }).waitFor();
    return tab.page;
  }

  it('takes a key by the link of an error, and of no other user', async () => {
    const ann = fleet.keys['acme']!;
    const link = await linkOf('accounts_whoami', ann);
    const enter = async (key: string) => {
      const page = await open(link, key);
      await page.getByLabel('Your key for mcp/accounts').fill(ANN);
      await page.getByRole('region', { name: 'mcp/accounts' }).getByRole('button', { name: 'Save key' }).click();
      return page;
    };
    await (await enter(fleet.adminKey)).getByText('This link was made for another user').waitFor();
    expect((await fleet.call('accounts_whoami', {}, { key: fleet.adminKey })).status).toBe(403);
    const page = await enter(ann);
    await page.getByText('mcp/accounts is connected').waitFor();
    expect(page.url()).not.toContain('link=');
    expect((await fleet.call('accounts_whoami', {}, { key: ann })).body.output).toBe('ann@accounts');
  });

  it('sends its user to the authorization server and takes the answer; administrators disconnect a user', async () => {
    const ann = fleet.keys['acme']!;
    login.user = 'ann@login';
    const page = await open(await linkOf('mine_whoami', ann), ann);
    await page.getByRole('button', { name: 'Connect mcp/mine' }).click();
    await page.getByText('mcp/mine is connected').waitFor();
    expect(page.url()).toMatch(/\/console#\/connections$/);
    expect((await fleet.call('mine_whoami', {}, { key: ann })).body.output).toBe('ann@login');
    const other = await open(`${fleet.url()}/console#/connections`, fleet.adminKey);
    await other.getByRole('searchbox', { name: 'User' }).fill('app');
    await other.getByText('as app').waitFor();
    await other.getByRole('button', { name: 'Disconnect mcp/mine' }).click();
    await other.getByRole('button', { name: 'Yes' }).click();
    await other.getByRole('region', { name: 'mcp/mine' }).getByText('not connected').waitFor();
    expect((await fleet.call('mine_whoami', {}, { key: ann })).status).toBe(403);
  });
});
