import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { answers, startBroker, type BrokerProcess } from './broker-process.js';

/** A NATS server for a test. */
export interface NatsServer extends BrokerProcess {
  /** `nats://127.0.0.1:<port>`; with tenants, the fleet's own user. */
  readonly url: string;
  /** URL of a tenant's user, which may only use the subjects of that tenant. */
  tenantUrl(tenant: string): string;
}

/** Options of a test server. */
export interface NatsServerOptions {
  /** Each gets a user of the same name that may publish `tool.<verb>.<tenant>` and nothing else. */
  tenants?: readonly string[];
  /** Largest message in bytes; default 16 MiB as in deploy/nats.conf. */
  maxPayload?: number;
}

const FLEET_PASSWORD = 'fleet-password';

/** Starts a NATS server on a free loopback port. */
export async function startNats(options: NatsServerOptions = {}): Promise<NatsServer> {
  const { tenants = [], maxPayload = 16 * 1024 * 1024 } = options;
  const broker = await startBroker({
    name: 'nats-server',
    programs: ['nats-server', '/usr/sbin/nats-server'],
    async args(port, folder) {
      const file = join(folder, 'nats.conf');
      await writeFile(file, configuration(port, tenants, maxPayload));
      return ['-c', file];
    },
    serves: (port) => answers(port, '', 'INFO {'),
  });
  const at = (login: string): string => `nats://${login}127.0.0.1:${broker.port}`;
  return Object.assign(broker, {
    url: at(tenants.length > 0 ? `fleet:${FLEET_PASSWORD}@` : ''),
    tenantUrl: (tenant: string) => at(`${tenant}:${tenant}-password@`),
  });
}

function configuration(port: number, tenants: readonly string[], maxPayload: number): string {
  const lines = [
    `host: 127.0.0.1`,
    `port: ${port}`,
    `max_payload: ${maxPayload}`,
    `max_pending: ${Math.max(64 * 1024 * 1024, maxPayload)}`,
    `ping_interval: "5s"`,
    `ping_max: 2`,
    `write_deadline: "2s"`,
  ];
  if (tenants.length > 0) {
    const users = tenants.map((tenant) => {
      const subjects = ['call', 'batch', 'list', 'cancel'].map((verb) => `"tool.${verb}.${tenant}"`).join(', ');
      return `{ user: "${tenant}", password: "${tenant}-password", permissions: { publish: [${subjects}], subscribe: ["_INBOX.>", "tool.result.${tenant}.>"] } }`;
    });
    lines.push(`authorization { users: [ { user: "fleet", password: "${FLEET_PASSWORD}" }, ${users.join(', ')} ] }`);
  }
  return `${lines.join('\n')}\n`;
}
