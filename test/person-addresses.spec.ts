/** Every place where an address of another party reaches a person who opens it, or to their browser, is behind `addressFault`. */
import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

/** What gives a person an address: questions of MCP, pages of authorization servers, forms and links. */
const GIVES =
  /mode: 'url'|=== 'url' \?|UrlElicitationRequiredError\)|authorization_endpoint \?\?|buildAuthorizationUrl\(|end_session_endpoint|location\.assign\(|window\.open\(|href=\{(?!to[A-Z]\w*\()/;
/** Places where the address is checked. */
const CHECKED = [
  'apps/identity/src/oauth-client.ts',
  'apps/identity/src/sign-in/company-provider.ts',
  'apps/mcp-executor/src/input-request.ts',
  'apps/mcp-executor/src/mcp-error.ts',
];
/** Places with an address of the fleet or of its operator, or one that was checked before. */
const OWN: Record<string, string> = {
  'apps/console/src/ui/components.tsx': 'a list of the console, from its router',
  'apps/console/src/session.ts': 'the sign-in page of the fleet',
  'apps/console/src/views/call-figures.tsx': 'a page of the console',
  'apps/console/src/views/call-page.tsx':
    'GATEWAY_TRACE_URL (http or https) and GATEWAY_LOG_SEARCH (a link only if http or https)',
  'apps/console/src/views/call-record.tsx': 'the page of an error code, which the gateway serves',
  'apps/console/src/views/connections.tsx': 'authorization_url, which identity has checked',
  'apps/console/src/main.tsx': 'the sign-in page of the fleet',
  'libs/mcp/src/input-request.ts': 'questions that mcp-executor has checked',
  'libs/mcp/src/connect-account.ts': 'the connect page at GATEWAY_PUBLIC_URL (http or https)',
};

it('addresses of other parties are checked before they reach a person', () => {
  const sources = globSync('{apps,libs,tools}/*/src/**/*.{ts,tsx}').filter((file) => !/\.spec\.ts/.test(file));
  expect(sources.length).toBeGreaterThan(500);
  const giving = sources.filter((file) => GIVES.test(readFileSync(file, 'utf8')));
  expect(giving.toSorted()).toEqual([...CHECKED, ...Object.keys(OWN)].toSorted());
  for (const file of CHECKED) expect(readFileSync(file, 'utf8'), file).toContain('addressFault(');
});
