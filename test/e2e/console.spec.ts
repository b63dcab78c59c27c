/** The shortest way through the console: sign in, run a tool, see the call. All of it: `npm run test:browser`. */
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findChromium, launchChromium } from '../browser/chromium.js';
import { ConsolePage } from '../browser/console-page.js';
import { CLIENT_ID, CLIENT_SECRET, OpenIdProvider } from '../doubles/openid-provider.js';
import { TestFleet } from '../fleet/test-fleet.js';

const CHROMIUM = findChromium();
if (CHROMIUM === undefined) process.stdout.write('skipped: the console needs Chromium; name one in CHROMIUM_PATH\n');

describe.skipIf(CHROMIUM === undefined)('console', () => {
  let fleet: TestFleet;
  let browser: Browser;
  let company: OpenIdProvider;
  beforeAll(async () => {
    company = await OpenIdProvider.start({ alice: { groups: ['platform'] } });
    [fleet, browser] = await Promise.all([
      TestFleet.start({
        together: true,
        services: { gateway: 1, registry: 1, budget: 1, records: 1, 'builtin-executor': 1, identity: 1 },
        tools: ['calculator'],
        config: {
          sign_in: {
            issuer: company.issuer,
            client_id: CLIENT_ID,
            name: 'Example Corp',
            scopes: ['groups'],
            tenant: 'acme',
            roles: { platform: ['admin'] },
          },
        },
        envOf: {
          gateway: { CONSOLE_DIR: fileURLToPath(new URL('../../apps/console/dist/web', import.meta.url)) },
          identity: { OIDC_CLIENT_SECRET: CLIENT_SECRET, EGRESS_ALLOWED_ENDPOINTS: company.issuer },
        },
      }),
      launchChromium(CHROMIUM!),
    ]);
    await company.serve(fleet.url());
  });
  afterAll(async () => {
    await browser?.close();
    await fleet?.stop();
    await company?.stop();
  });

  it('runs a tool and shows its call, with nothing refused by its own policy', async () => {
    const tab = await ConsolePage.open(browser, fleet.url());
    const { page } = tab;
    await tab.signIn(fleet.adminKey);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.getByRole('link', { name: 'Tools', exact: true }).click();
    await page.getByRole('link', { name: /^calculator/ }).click();
    await page.getByLabel('expression', { exact: true }).fill('6 * 7');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('region', { name: 'Result' }).getByText('success').waitFor();
    expect(await tab.accessibilityFaults()).toEqual([]);
    await page.getByRole('link', { name: 'Calls', exact: true }).click();
    await page.getByRole('link', { name: 'calculator' }).waitFor();
    await page.getByLabel('Status').selectOption('refused');
    await page.getByRole('link', { name: 'calculator' }).waitFor({ state: 'detached' });
    await page.getByLabel('Status').selectOption('success');
    await page.getByLabel('Tool', { exact: true }).fill('calculator');
    await page.getByRole('link', { name: 'calculator' }).waitFor();
    expect(page.url()).toMatch(/#\/calls\?status=success&tool=calculator$/);
    expect(await tab.accessibilityFaults()).toEqual([]);
    const refused = await fleet.call('calculator', { nonsense: true });
    await tab.go(`calls/${refused.body.call_id}`, 'calculator');
    const timeline = page.getByRole('region', { name: 'Timeline' });
    await timeline.getByText('Check the format and types of the named arguments.').waitFor();
    await timeline.getByText('checks', { exact: true }).waitFor();
    expect(await tab.accessibilityFaults()).toEqual([]);
    await tab.go('overview', 'Overview');
    await page
      .getByRole('region', { name: 'By error code' })
      .getByRole('link', { name: 'ARGUMENTS_INVALID', exact: true })
      .click();
    await page.getByRole('link', { name: `calculator call ${refused.body.call_id}` }).waitFor();
    expect(page.url()).toMatch(/#\/calls\?from=1h&code=ARGUMENTS_INVALID$/);
    await tab.go('budgets', 'Budgets and cost');
    await page.getByLabel('Id of the user').fill('ann');
    await page.getByLabel('USD', { exact: true }).fill('0');
    await page.getByRole('button', { name: 'Test with recorded calls' }).click();
    await page.getByText(/^Would have refused \d+ of \d+ calls since/).waitFor();
    expect(await tab.accessibilityFaults()).toEqual([]);
    expect(tab.troubles).toEqual([]);
    await tab.close();
  });

  it('signs in at the provider, keeps the session over a reload, and signs out', async () => {
    const tab = await ConsolePage.open(browser, fleet.url());
    const { page } = tab;
    await page.goto(`${fleet.url()}/console#/tools`);
    await page.getByRole('button', { name: 'Sign in with Example Corp' }).click();
    await page.getByRole('heading', { level: 1, name: 'Tools' }).waitFor();
    await page.getByText('alice').waitFor();
    await page.reload();
    await page.getByRole('heading', { level: 1, name: 'Tools' }).waitFor();
    expect(await page.evaluate('document.cookie + JSON.stringify(sessionStorage)')).toBe('{}');
    expect(await tab.accessibilityFaults()).toEqual([]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(/\/session\/end/);
    await page.goto(`${fleet.url()}/console`);
    await page.getByRole('button', { name: 'Sign in with Example Corp' }).waitFor();
    expect(await tab.accessibilityFaults()).toEqual([]);
    expect(tab.troubles.filter((trouble) => !trouble.startsWith(`asked ${company.issuer}/`))).toEqual([]);
    await page.context().close();
  });
});
