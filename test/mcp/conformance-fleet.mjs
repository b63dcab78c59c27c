/** A fleet in front of the server under the conformance suite, for the suite to run through it. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../tools/local/child-process.mjs';
import { startFleet } from '../../tools/local/fleet.mjs';

const POLL_MS = 200;
const POLLS = 300;

/**
 * Starts a fleet whose only MCP server is the given one, under the server's own names and addresses.
 * @param {string} root of the repository
 * @param {number} port of the server
 * @returns the port of a proxy to the fleet's endpoint that adds the credential that the suite cannot send, and how to stop both
 */
export async function startConformanceFleet(root, port) {
  const stateDir = mkdtempSync(join(tmpdir(), 'toolfleet-conformance-'));
  const config = join(stateDir, 'conformance.json');
  const server = { url: `http://127.0.0.1:${port}/mcp`, prefix: '', trusted: true };
  writeFileSync(config, JSON.stringify({ mcp_servers: { conformance: server } }));
  Object.assign(process.env, {
    GATEWAY_PORT: String(await freePort()),
    TOOLFLEET_CONFIG: config,
    EGRESS_ALLOWED_ENDPOINTS: `http://127.0.0.1:${port}`,
  });
  const { fleet, stop } = await startFleet({
    root,
    stateDir,
    say: () => {},
    onGivenUp: (error) => console.error(error.message),
  });
  const authorization = `Bearer ${fleet.api_key}`;
  const isListed = async () =>
    (await fetch(`${fleet.url}/api/v1/tools/test_simple_text`, { headers: { authorization } })).ok;
  for (let poll = 1; !(await isListed()); poll += 1) {
    if (poll === POLLS) throw new Error('the fleet does not list the tools of the server');
    await sleep(POLL_MS);
  }
  const { hostname, port: gatewayPort } = new URL(fleet.url);
  const proxy = createServer((incoming, response) => {
    const { method, url: path, headers } = incoming;
    const options = { hostname, port: gatewayPort, method, path, headers: { ...headers, authorization } };
    const outgoing = request(options, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  return {
    port: proxy.address().port,
    async stop() {
      proxy.closeAllConnections();
      proxy.close();
      await stop();
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
}
