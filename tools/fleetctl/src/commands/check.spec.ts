import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folder, run, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const GOOD = 'mcp_servers: { crm: { url: https://crm.example/mcp } }\ntoolsets: { support: {} }';

it('says what the services would say about a configuration file', async () => {
  const good = file('good.yaml', GOOD);
  expect(await run(['check', good])).toMatchObject({ code: 0, out: '1 enabled sources, 1 toolsets\n' });
  const wrong = file('wrong.yaml', 'budgets: {}\nmcp_servers: { crm: { ulr: x } }');
  expect(await run(['check', wrong])).toMatchObject({
    code: 1,
    out: [
      `${wrong}: budgets is an unknown key; did you mean budget?`,
      `${wrong}: mcp_servers.crm.ulr is an unknown key; did you mean url?`,
      'Services refuse to start with this configuration, and ignore it when it is changed.',
      '',
    ].join('\n'),
  });
  expect((await run(['check', join(folder, 'none.yaml')])).out).toContain('cannot be read: ENOENT');
  expect((await run(['check'])).code).toBe(2);
});

it('joins several files, and prints faults of single entries', async () => {
  const files = [file('good.yaml', GOOD), file('more.yaml', 'mcp_servers: { geo: { url: ftp://geo } }')];
  expect(await run(['check', ...files])).toMatchObject({
    code: 1,
    out: 'mcp_servers.geo.url must be an http or https URL (the entry would be ignored)\n1 enabled sources, 1 toolsets\n',
  });
  expect(JSON.parse((await run(['check', ...files, '--json'])).out)).toEqual({
    valid: false,
    refused: [],
    entries: ['mcp_servers.geo.url must be an http or https URL'],
  });
});
