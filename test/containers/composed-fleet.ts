/** docker-compose.yml brought up for a test: its own images, ports, secrets and project, everything else as operators run it. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, freePort } from '@toolfleet/testing';
import yaml from 'js-yaml';
import { askAt, type Answer, type Ask, type CallOptions } from '../fleet/test-fleet.js';
import { reserveAddresses, type Engine } from './engine.js';
import type { Images } from './images.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const POLL = { everyMs: 500 };

/** A service of docker-compose.yml. */
export interface ComposeService {
  image: string;
  build?: { args: { APP: string } };
  container_name?: string;
  entrypoint?: string[];
  environment?: Record<string, string>;
  networks: string[];
  depends_on?: Record<string, unknown>;
  volumes?: string[];
  tmpfs?: string[];
  ports?: string[];
  secrets?: string[];
  user?: string;
  cap_drop?: string[];
  read_only?: boolean;
  security_opt?: string[];
  stop_grace_period?: string;
}
export type ComposeServices = Record<string, ComposeService>;

/** Services of docker-compose.yml with images of other projects that watch the fleet. */
export const WATCHERS = ['otel-collector', 'prometheus', 'alertmanager', 'grafana'];

/** The content of docker-compose.yml. */
export function composeFile(): ComposeFile {
  return yaml.load(readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8')) as ComposeFile;
}

interface ComposeFile {
  services: ComposeServices;
  networks: Record<string, { internal?: boolean }>;
  secrets: Record<string, { file: string }>;
}

/** Apps with an image that docker-compose.yml builds. */
export const composedApps = (): string[] => [
  ...new Set(Object.values(composeFile().services).flatMap(({ build }) => build?.args.APP ?? [])),
];

/** Images of other projects that docker-compose.yml names, of all its services unless given. */
export const pulledImages = (names = Object.keys(composeFile().services)): string[] => {
  const { services } = composeFile();
  return [...new Set(names.map((name) => services[name]!.image))].filter((image) => !image.startsWith('toolfleet/'));
};

/** Parameters of a fleet. */
export interface ComposedFleetOptions {
  engine: Engine;
  images: Images;
  /** Services to start; all that have an image unless given. */
  only?: readonly string[];
  /** Changes the services: fewer dependencies, more settings, planted faults. `folder` is removed with the fleet. */
  change?: (services: ComposeServices, folder: string) => void;
  /** Content of the fleet's configuration file in addition to deploy/compose/fleet.yaml. */
  config?: object;
}

/** A fleet in containers. */
export class ComposedFleet {
  adminKey = '';
  operatorKey = '';
  private constructor(
    readonly engine: Engine,
    readonly services: ComposeServices,
    readonly natsUrl: string,
    private readonly origin: string,
    private readonly folder: string,
  ) {}

  /** Starts the containers; `untilReady` waits for them. */
  static async start({ engine, images, only, change, config = {} }: ComposedFleetOptions): Promise<ComposedFleet> {
    const folder = mkdtempSync(join(tmpdir(), 'toolfleet-test'));
    const project = basename(folder).toLowerCase();
    const { services, ...rest } = composeFile();
    for (const name of Object.keys(services)) {
      const isMissing = WATCHERS.includes(name) && !images.hasWatchers;
      if (isMissing || only?.includes(name) === false) delete services[name];
    }
    const [http, nats] = [await freePort(), await freePort()];
    const given = yaml.load(readFileSync(join(ROOT, 'deploy/compose/fleet.yaml'), 'utf8')) as Record<string, object>;
    const wide = { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 };
    const merged: Record<string, object> = { ...given, rate_limits: { tiers: { wide } } };
    for (const [key, value] of Object.entries(config)) merged[key] = { ...given[key], ...value };
    writeFileSync(join(folder, 'fleet.yaml'), JSON.stringify(merged));
    for (const [name, service] of Object.entries(services)) {
      service.container_name = `${project}-${name}`;
      service.image = images.of(service.image);
      delete service.build;
      delete service.ports;
      for (const other of Object.keys(service.depends_on ?? {}))
        if (!services[other]) delete service.depends_on![other];
      if (service.depends_on && Object.keys(service.depends_on).length === 0) delete service.depends_on;
      service.volumes = service.volumes?.map((mount) => {
        if (mount.startsWith('./deploy/compose/fleet.yaml')) return `${folder}/fleet.yaml:/etc/toolfleet/fleet.yaml:ro`;
        return mount.startsWith('./') ? resolve(ROOT, mount) : mount;
      });
      if (!service.volumes) delete service.volumes;
    }
    if (services['gateway']) services['gateway'].ports = [`127.0.0.1:${http}:8080`];
    if (services['nats']) services['nats'].ports = [`127.0.0.1:${nats}:4222`];
    change?.(services, folder);
    execFileSync(process.execPath, [join(ROOT, 'tools/deploy/make-secrets.mjs'), join(folder, 'secrets')]);
    for (const [name, secret] of Object.entries(rest.secrets)) secret.file = join(folder, 'secrets', name);
    // podman-compose refuses networks that no service is in.
    const used = new Set(Object.values(services).flatMap(({ networks }) => networks));
    for (const name of Object.keys(rest.networks)) if (!used.has(name)) delete rest.networks[name];
    // JSON is YAML.
    writeFileSync(join(folder, 'docker-compose.yml'), JSON.stringify({ ...rest, name: project, services }));
    const fleet = new ComposedFleet(engine, services, `nats://127.0.0.1:${nats}`, `http://127.0.0.1:${http}`, folder);
    const reserved = await reserveAddresses();
    try {
      await fleet.#compose('up', '--detach');
      return fleet;
    } catch (error) {
      await fleet.down();
      throw error;
    } finally {
      reserved.close();
    }
  }

  #compose(...args: string[]): Promise<string> {
    return this.engine.compose(
      join(this.folder, 'docker-compose.yml'),
      '-p',
      basename(this.folder).toLowerCase(),
      ...args,
    );
  }

  /** A secret of the fleet: NATS_TENANT_ACME_PASSWORD, say. */
  secret(name: string): string {
    return readFileSync(join(this.folder, 'secrets', name), 'utf8');
  }

  /** Waits until the tools are listed; makes keys of an operator and of an administrator of `acme`, of the tier `wide`. */
  async untilReady(tools: readonly string[]): Promise<void> {
    const devKey = this.secret('dev_api_key');
    await this.untilListed(tools, devKey);
    const issue = async (tenantId: string, roles: string[]): Promise<string> => {
      const body = { client: `test-${roles.join('-')}`, tenant_id: tenantId, roles, tier: 'wide' };
      const made = await this.ask({ path: '/api/v1/keys', body, key: devKey });
      if (made.status !== 201) throw new Error(`no key was made: ${made.status} ${made.text}`);
      return String(made.body.token);
    };
    this.operatorKey = await issue('operator', ['admin', 'operator']);
    this.adminKey = await issue('acme', ['admin']);
  }

  ask(ask: Ask): Promise<Answer> {
    return askAt(this.origin, { key: this.adminKey, ...ask });
  }

  /** Calls a tool over the native HTTP API. */
  call(tool: string, args: object, { fields, ...rest }: CallOptions = {}): Promise<Answer> {
    return this.ask({ path: `/api/v1/tools/${tool}/execute`, body: { arguments: args, ...fields }, ...rest });
  }

  async untilListed(tools: readonly string[], key = this.adminKey): Promise<void> {
    let seen = 'no answer';
    const isListed = async () => {
      const answer = await this.ask({ path: '/tools/list', key }).catch(() => undefined);
      seen = answer?.text ?? 'no answer';
      return Array.isArray(answer?.body) && tools.every((tool) => answer.body.includes(tool));
    };
    try {
      await eventually(`${tools.join(', ')} are listed`, isListed, { ...POLL, timeoutMs: READY_WITHIN_MS });
    } catch (error) {
      const logs = await Promise.all(Object.keys(this.services).map((name) => this.logs(name)));
      throw new Error(`${String(error)}: ${seen.slice(0, 500)}\n${logs.join('\n')}`, { cause: error });
    }
  }

  container(service: string): string {
    return this.services[service]!.container_name!;
  }

  /** Runs a command in the container of a service. @returns its output */
  exec(service: string, ...command: string[]): Promise<string> {
    return this.engine.run('exec', this.container(service), ...command);
  }

  async inspect(service: string): Promise<ContainerState> {
    const [state] = JSON.parse(await this.engine.run('container', 'inspect', this.container(service))) as [
      ContainerState,
    ];
    return state;
  }

  /** Last lines of a service's log. */
  async logs(service: string): Promise<string> {
    const lines = await this.engine.run('logs', '--tail', '12', this.container(service)).catch(String);
    return `--- ${service}\n${lines}`;
  }

  /** Ends a container as `docker compose stop` does, with the time its service has to drain. @returns its exit code */
  async stop(service: string): Promise<number> {
    const grace = this.services[service]!.stop_grace_period ?? '25s';
    await this.engine.run('stop', '--time', String(parseInt(grace, 10)), this.container(service));
    return (await this.inspect(service)).State.ExitCode;
  }

  async restart(service: string): Promise<void> {
    await this.stop(service);
    await this.startAgain(service);
  }

  async startAgain(service: string): Promise<void> {
    await this.engine.run('start', this.container(service));
  }

  async kill(service: string): Promise<void> {
    await this.engine.run('kill', '--signal', 'KILL', this.container(service));
  }

  /** Waits until the health check of an image or service passes; runs it without the time-out that a busy machine exceeds. */
  async untilHealthy(service: string): Promise<void> {
    const [kind, ...command] = (await this.inspect(service)).Config.Healthcheck?.Test ?? [];
    if (kind === undefined) throw new Error(`${service} has no health check`);
    const check = kind === 'CMD-SHELL' ? ['sh', '-c', ...command] : command;
    let complaint = '';
    const isSettled = () =>
      this.exec(service, ...check).then(
        () => {
          complaint = '';
          return true;
        },
        async (error: Error) => {
          complaint = error.message;
          return (await this.inspect(service)).RestartCount >= MAX_STARTS;
        },
      );
    await eventually(`${service} is healthy`, isSettled, { ...POLL, timeoutMs: READY_WITHIN_MS }).catch(
      () => undefined,
    );
    if (complaint) throw new Error(`${service} is not healthy: ${complaint}\n${await this.logs(service)}`);
  }

  async down(): Promise<void> {
    const names = Object.values(this.services).map(({ container_name: name }) => name!);
    // Docker kills at once, podman only with a time-out of 0.
    const atOnce = this.engine.name === 'podman' ? ['--time', '0'] : [];
    await this.engine.run('rm', '--force', '--volumes', ...atOnce, ...names).catch(() => undefined);
    await this.#compose('down', '--volumes').catch(() => undefined);
    const prefix = `${basename(this.folder).toLowerCase()}_`;
    const networks = (await this.engine.run('network', 'ls', '--format', '{{.Name}}')).split('\n');
    for (const network of networks.filter((name) => name.startsWith(prefix)))
      await this.engine.run('network', 'rm', network);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A fleet that does not come up in this time has a fault. */
const READY_WITHIN_MS = 120_000;

/** A container that its engine has started this often again is not going to be healthy. */
const MAX_STARTS = 5;

/** Part of the output of `inspect`. */
export interface ContainerState {
  RestartCount: number;
  State: { ExitCode: number; Running: boolean; StartedAt: string };
  Config: { Healthcheck?: { Test: string[] } };
  NetworkSettings: { Networks: Record<string, { IPAddress: string; Gateway: string }> };
}
