import { randomUUID } from 'node:crypto';
import { readQuotas } from '@toolfleet/contracts/account';
import { SIZES } from '@toolfleet/contracts/subjects';
import { type JobQueue, queueMetrics } from '@toolfleet/queue';
import { isDevelopment, serveDocsAt } from '@toolfleet/contracts';
import type { FleetFile } from '@toolfleet/fleet-file';
import {
  FatalStartupError,
  fleetFileReloader,
  loadFleetFile,
  type LifecycleComponent,
  type ServiceHost,
} from '@toolfleet/service';
import { Heartbeat, NatsStrategy } from '@toolfleet/transport';
import { wireResults } from './wire-results.js';
import { ConnectLinks } from '@toolfleet/access';
import { wireAuth, type Auth } from './wire-auth.js';
import { connectBrokers, type Brokers } from './brokers.js';
import { ToolInventory, type Toolsets } from '@toolfleet/catalog';
import { foreignVariables } from './foreign-variables.js';
import { SpendSlices } from '@toolfleet/engine-adapters';
import { wireCalls, type Calls } from './wire-calls.js';
import { wireCatalog, type GatewayCatalog } from './wire-catalog.js';
import { wireEngine, type Engine } from './wire-engine.js';
import { FleetView, FleetWatch, ToolRateLimits } from '../operator/fleet-view.js';
import { RedisDeclarations } from '../operator/redis-declarations.js';
import { redisState } from '../operator/redis-state.js';
import { RuleTests } from '@toolfleet/rules';
import { ChangeLog } from '../server/change-log.js';
import { ErrorFilter } from '../server/error.filter.js';
import { AuthGuard, KeyLimitGuard, ToolsetGuard } from '../server/guards.js';
import { GatewayServer } from '../server/gateway-server.js';
import { knownBase, type PublicAddress } from '../server/public-origin.js';
import { gatewayConfig, type GatewayConfig } from '../gateway.config.js';
import { GatewayModule } from './gateway.module.js';
import { CallRoute } from '../http/call-route.js';
import { MountedConsole } from '../http/console.js';
import { FleetRoles } from '../http/roles.controller.js';
import { SignIn } from '../http/sign-in.controller.js';
import { IdentityPages } from '../server/identity-pages.js';
import { BodyReader } from '../server/body-reader.js';
import { MemoryAccount } from '../server/memory-account.js';
import { EventStreams } from '../server/event-streams.js';
import { Readiness } from '../http/health.controller.js';
import { HttpCalls } from '../http/http-call.js';
import { OWN_SERVER_PATHS } from '../mcp/request-access.js';
import { wireMcp } from './wire-mcp.js';
import { LargeNatsMessages } from '../nats/large-messages.js';
import { NatsCalls } from '../nats/nats-calls.js';
import { ConnectionSettings } from '../http/connections.controller.js';
import { LogLinks } from '../http/log-links.js';
import { wirePurges } from './wire-purges.js';
import { CallBodyReader, CallFeed, ContentReadings, type Purges } from '@toolfleet/records';

/**
 * Puts a gateway together, room by room. Plain functions build what lives as long as the process: connections, sign-in, the
 * engine, queues. Nest (gateway.module.ts) builds what serves a request: controllers, endpoints, guards and the error filter.
 * Components start in the order of the list and are drained and stopped in reverse.
 */
export function wireGateway(settings: GatewayConfig, host: ServiceHost): LifecycleComponent[] {
  serveDocsAt(knownBase(settings) ?? '');
  const brokers = connectBrokers(settings, host);
  const file = loadFleetFile(settings);
  const auth = wireAuth(settings, host, brokers, file);
  const catalog = wireCatalog(settings, host, brokers, file);
  const own = randomUUID().slice(0, 8);
  const watch = new FleetWatch(brokers.nats, host.clock, own);
  const holders = { own, isGone: (gateway: string) => watch.isGone(gateway) };
  const results = wireResults(settings, host, brokers, auth, catalog.sight, holders, () => watch.count('records') > 0);
  const links = new ConnectLinks(auth.tokens, host.clock, consoleAddress(settings));
  const engine = wireEngine(settings, host, {
    brokers,
    auth,
    catalog,
    results,
    file,
    links,
    // Its own first heartbeat may not be back yet.
    gateways: () => Math.max(1, watch.count('gateway')),
  });
  const calls = wireCalls(settings, host, { brokers, auth, catalog, engine, results });
  const fleet = wireFleetState(host, { brokers, catalog, engine, calls, watch, own });
  const purges = wirePurges(settings, host, { brokers, auth, results, catalog, queues: fleet.queues });
  const server = wireServer(settings, host, { brokers, auth, catalog, engine, calls, fleet, purges, links, file });
  return [
    engine.callLog.asComponent(), // starts first and stops last: every call is logged
    ...brokers.components,
    fleetFileReloader(settings, file, host),
    ...catalog.components,
    ...auth.components,
    ...engine.components,
    ...fleet.components,
    ...calls.components,
    purges,
    server, // opens last and drains first, so that every answer is still sent
  ];
}

type FleetState = ReturnType<typeof wireFleetState>;

/** Views of the console and of operators besides tools: finished calls, queues, executors, breakers, limits; and metrics of stores. */
function wireFleetState(
  { clock, metrics, faults, logger }: ServiceHost,
  deps: { brokers: Brokers; catalog: GatewayCatalog; engine: Engine; calls: Calls; watch: FleetWatch; own: string },
) {
  const { catalog, engine, calls, watch, own } = deps;
  const { nats, redis } = deps.brokers;
  const queues = [...engine.queues, calls.queue] as unknown as JobQueue[];
  const components: LifecycleComponent[] = [
    { name: 'state of the fleet', start: async () => watch.follow() },
    {
      name: 'environment',
      start: async () => {
        const ignored = foreignVariables(new Set(gatewayConfig.ownKeys));
        for (const line of ignored) logger.warn(line);
        faults.set('environment', ignored);
      },
    },
    new Heartbeat(nats, clock, {
      service: 'gateway',
      instance: own,
      breakers: () => engine.breakers.status(),
      faults,
    }),
    queueMetrics(queues, metrics, clock),
    redisState(redis, metrics, clock),
  ];
  const finishedCalls = new CallFeed(engine.callRecords, engine.recorder, catalog.sight, clock);
  const readings = new ContentReadings(engine.callRecords, logger);
  const bodies = new CallBodyReader(engine.callRecords, readings, catalog.sight);
  const { definitions, toolsets } = catalog;
  return {
    view: new FleetView(watch, queues, catalog.list),
    limits: new ToolRateLimits(catalog.list, engine.rateLimiter),
    finishedCalls,
    bodies,
    ruleTests: new RuleTests(engine.callRecords, definitions, toolsets, finishedCalls, bodies, clock),
    queues,
    components,
  };
}

interface ServerDeps {
  brokers: Brokers;
  auth: Auth;
  catalog: GatewayCatalog;
  engine: Engine;
  calls: Calls;
  fleet: FleetState;
  purges: Purges;
  links: ConnectLinks;
  file: FleetFile;
}

/** Open event streams of a gateway, about 100 KB each with their buffers, and of a tenant. */
const STREAMS = { maxStreams: 500, maxStreamsPerTenant: 100 };
/** Open HTTP connections of a gateway; further ones are closed. */
const MAX_CONNECTIONS = 10_000;

/** The entry points: HTTP, NATS, MCP, and the web console's files. */
function wireServer(settings: GatewayConfig, host: ServiceHost, deps: ServerDeps): GatewayServer {
  const { clock, metrics } = host;
  const { brokers, auth, catalog, engine, calls, fleet } = deps;
  const { sign_in: signIn, roles } = deps.file;
  const { nats } = brokers;
  const address = publicAddress(settings, signIn);
  const hasSignIn = signIn.issuer !== undefined;
  const maxBodyBytes = SIZES.request;
  const memory = new MemoryAccount({ maxBodyBytes, maxBytes: settings.GATEWAY_MAX_BODIES_MB * 1024 * 1024 });
  const streams = new EventStreams(STREAMS, memory, auth.watch);
  metrics.onScrape(() => metrics.eventStreams.set({}, streams.open));
  const bodies = new BodyReader(clock);
  const { natsCalls, strategy } = wireNats(settings, host, nats, auth, catalog.toolsets, { memory, bodies });
  // Requests are counted once their caller is known.
  const guards = [new AuthGuard(auth.authenticate), new KeyLimitGuard(auth.limits), new ToolsetGuard(catalog.toolsets)];
  const module = GatewayModule.with({
    clock,
    guards,
    local: settings.TOOLFLEET_LOCAL,
    instances: [
      nats,
      auth.keys,
      auth.limits,
      auth.registerAuth,
      catalog.list,
      catalog.toolsets,
      new ToolInventory(catalog.definitions, catalog.list),
      catalog.search,
      catalog.definitions,
      calls.toolCalls,
      calls.batches,
      calls.asyncCalls,
      calls.decisions,
      calls.results,
      fleet.view,
      fleet.limits,
      fleet.finishedCalls,
      fleet.bodies,
      fleet.ruleTests,
      new ChangeLog(host.logger),
      new SignIn(nats, signIn, address),
      new FleetRoles(roles, signIn),
      new LogLinks(settings.GATEWAY_TRACE_URL, settings.GATEWAY_LOG_SEARCH),
      new RedisDeclarations(brokers.redis, readQuotas(settings.TENANT_QUOTAS)),
      deps.purges,
      new ConnectionSettings(settings.GATEWAY_IDENTITY, address, deps.links),
      streams,
      natsCalls,
      new HttpCalls(clock, settings.GATEWAY_CALL_TIMEOUT_MS, auth.projects),
      new SpendSlices(engine.budget, clock),
      new Readiness(brokers.connections, host.draining, clock),
    ],
  });
  return new GatewayServer(
    module,
    strategy,
    {
      host: settings.GATEWAY_HOST,
      onConnectionRefused: () => auth.rejections.count('connection_limit'),
      port: settings.GATEWAY_PORT,
      // Elsewhere the system does not spread connections.
      sharesPort: settings.TOOLFLEET_LOCAL && process.platform === 'linux',
      maxBodyBytes,
      memory,
      bodies,
      connections: {
        requestTimeoutMs: settings.GATEWAY_REQUEST_TIMEOUT_MS,
        keepAliveMs: settings.GATEWAY_KEEP_ALIVE_SECONDS * 1_000,
        maxConnections: MAX_CONNECTIONS,
        maxConnectionsPerAddress: settings.GATEWAY_MAX_CONNECTIONS_PER_ADDRESS,
      },
    },
    host,
    (request) => auth.registerAuth.prove(request.rawHeaders),
    [
      wireMcp(settings, host, { brokers, auth, catalog, engine, calls, streams, hasSignIn }),
      new CallRoute(guards, new ErrorFilter(clock)),
      new MountedConsole(settings.CONSOLE_DIR, host),
      ...(hasSignIn ? [identityPages(settings, nats, address, auth)] : []),
    ],
  );
}

/** The sign-in. Behind a proxy all requests have its address, so the proxy limits them. */
function identityPages(
  { GATEWAY_MAX_CONNECTIONS_PER_ADDRESS: perAddress }: GatewayConfig,
  nats: Brokers['nats'],
  address: PublicAddress,
  { keyLimits, rejections }: Pick<Auth, 'keyLimits' | 'rejections'>,
): IdentityPages {
  const limits = perAddress === 0 ? undefined : keyLimits;
  return new IdentityPages(nats, address, OWN_SERVER_PATHS, limits, () => rejections.count('address_limit'));
}

/** Where clients reach this gateway. @throws FatalStartupError when a sign-in could not come back to it */
function publicAddress(settings: GatewayConfig, signIn: FleetFile['sign_in']): PublicAddress {
  const { GATEWAY_PUBLIC_URL: publicUrl } = settings;
  const development = isDevelopment(settings.ENVIRONMENT);
  if (signIn.issuer !== undefined && publicUrl === undefined && !development)
    throw new FatalStartupError('GATEWAY_PUBLIC_URL is required by the section sign_in outside development');
  if (signIn.issuer !== undefined && !settings.GATEWAY_IDENTITY)
    throw new FatalStartupError('GATEWAY_IDENTITY=true and the service identity are required by the section sign_in');
  if (signIn.issuer !== undefined && publicUrl !== undefined && new URL(publicUrl).pathname !== '/')
    throw new FatalStartupError(
      `GATEWAY_PUBLIC_URL must have no path with the section sign_in, because its cookies count for a whole host; it is ${publicUrl}`,
    );
  return { publicUrl, development };
}

/** Where people reach the console, without a trailing slash; undefined if there is none, or its address is not known. */
const consoleAddress = (settings: GatewayConfig): string | undefined =>
  settings.CONSOLE_DIR === undefined ? undefined : knownBase(settings);

/** The NATS endpoints: authentication of messages, and the transport that Nest calls the endpoints by. */
function wireNats(
  settings: GatewayConfig,
  { clock, logger }: ServiceHost,
  nats: Brokers['nats'],
  auth: Auth,
  toolsets: Toolsets,
  { memory, bodies }: { memory: MemoryAccount; bodies: BodyReader },
) {
  const natsCalls = new NatsCalls(
    {
      authenticate: auth.authenticate,
      selectToolset: (principal, requested) => toolsets.select(principal, requested),
      local: settings.TOOLFLEET_LOCAL,
      onRefused: () => auth.rejections.count('unauthenticated'),
      trustTenantSubjects: settings.GATEWAY_TRUST_TENANT_SUBJECTS || settings.TOOLFLEET_LOCAL,
    },
    clock,
    settings.GATEWAY_CALL_TIMEOUT_MS,
    auth.limits,
    auth.projects,
  );
  const strategy = new NatsStrategy({
    connection: nats,
    queue: 'gateway',
    isEntryPoint: true,
    admit: (context) => natsCalls.admit(context),
    large: new LargeNatsMessages(memory, bodies, natsCalls),
    // The engine decides which calls to refuse when there are too many: it is fair to tenants.
    concurrency: settings.GATEWAY_MAX_CALLS,
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'a NATS endpoint failed'),
  });
  return { natsCalls, strategy };
}
