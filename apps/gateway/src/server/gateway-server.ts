import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import type { DynamicModule, INestApplicationContext } from '@nestjs/common';
import { fastify as createFastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { ServiceHost, LifecycleComponent } from '@toolfleet/service';
import type { NatsStrategy } from '@toolfleet/transport';
import { ErrorFilter, toRequestError, sendError } from './error.filter.js';
import { admitBeforeBody, type AuthenticateSender, answerWrongMethods } from './admit-request.js';
import {
  limitConnections,
  serverOptions,
  refuseUnreadable,
  type ConnectionLimits,
  type ConnectionQueues,
  closeWithAnswers,
  serveInOrder,
} from './connections.js';
import { divertCalls } from './divert-calls.js';
import { noteLateRequests, Suspensions } from './late-requests.js';
import { writeAsPreferred } from './json-writer.js';
import { limitMemory, type MemoryAccount } from './memory-account.js';
import type { BodyReader } from './body-reader.js';
import { acceptJsonBodies } from './request-body.js';

/** Longest segment of a path: aliases of OpenAPI tools contain an operationId. */
const MAX_PARAM_LENGTH = 300;

/** Where the public server listens. */
interface ListenAddress {
  host: string;
  port: number;
  /** Whether other processes may listen there too; the system spreads connections. */
  sharesPort: boolean;
  maxBodyBytes: number;
  /** Bytes of request bodies and unread responses. */
  memory: MemoryAccount;
  bodies: BodyReader;
  connections: ConnectionLimits;
  /** Called for each connection beyond the limits. */
  onConnectionRefused: () => void;
}

/** Routes on the same Fastify instance that Nest does not serve. */
export interface Mounted {
  /** Before the server listens, and before Nest adds its routes. */
  mount?(fastify: FastifyInstance): Promise<void>;
  /** The same for the instance that serves calls (`divertCalls`). */
  mountCalls?(fastify: FastifyInstance, app: INestApplicationContext): Promise<void>;
  /** Called while the server closes and waits for answers: finishes calls, then ends streams that would keep the server open. */
  drain?(): Promise<void>;
}

/** The HTTP server and the NATS endpoints. They start last and drain first, so that every answer is still sent. */
export class GatewayServer implements LifecycleComponent {
  readonly name = 'entry points';
  readonly settings = ['GATEWAY_HOST', 'GATEWAY_PORT'];
  private app: NestFastifyApplication | undefined;

  constructor(
    private readonly module: DynamicModule,
    private readonly strategy: NatsStrategy,
    private readonly address: ListenAddress,
    private readonly host: ServiceHost,
    private readonly prove: AuthenticateSender,
    private readonly mounted: readonly Mounted[] = [],
  ) {}

  async start(): Promise<void> {
    const { host, port, sharesPort, maxBodyBytes, memory, bodies, connections } = this.address;
    const { clock } = this.host;
    const options = {
      bodyLimit: maxBodyBytes,
      // While draining, requests on open connections are still served; their answers close the connections.
      return503OnClosing: false,
      routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
      frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) =>
        sendError(reply, request.url, toRequestError(error)),
    };
    const app = await NestFactory.create<NestFastifyApplication>(
      this.module,
      new FastifyAdapter({
        ...options,
        http: serverOptions(connections),
        requestTimeout: connections.requestTimeoutMs,
        keepAliveTimeout: connections.keepAliveMs,
        forceCloseConnections: 'idle',
        clientErrorHandler: refuseUnreadable,
      }),
      { logger: false, abortOnError: false, bodyParser: false },
    );
    const fastify = app.getHttpAdapter().getInstance() as unknown as FastifyInstance;
    limitConnections(fastify.server, connections, this.address.onConnectionRefused);
    const suspensions = new Suspensions(clock);
    const queues: ConnectionQueues = new WeakMap();
    const calls = createFastify({
      ...options,
      serverFactory: () => fastify.server,
      clientErrorHandler: () => undefined,
    });
    fastify.addHook('preClose', () => calls.close());
    for (const instance of [fastify, calls]) {
      noteLateRequests(instance, suspensions);
      serveInOrder(instance, queues);
      if (instance === fastify) answerWrongMethods(instance);
      if (instance === fastify) writeAsPreferred(instance);
      admitBeforeBody(instance, this.prove, clock);
      limitMemory(instance, memory, clock);
      closeWithAnswers(instance);
      acceptJsonBodies(instance, maxBodyBytes, bodies);
    }
    const errors = new ErrorFilter(clock);
    calls.setErrorHandler((error, request, reply) => errors.render(error, request, reply));
    for (const part of this.mounted) {
      await part.mount?.(fastify);
      await part.mountCalls?.(calls, app);
    }
    await divertCalls(calls);
    app.connectMicroservice({ strategy: this.strategy });
    await app.startAllMicroservices();
    // Fastify hands them to Node, and knows the type of some.
    const place = { port, host, reusePort: sharesPort, backlog: connections.maxConnections };
    try {
      await app.listen(place);
    } catch (error) {
      await app.close();
      throw error;
    }
    this.app = app;
    const bound = app.getHttpServer().address() as { port: number };
    this.host.announce({ port: bound.port });
  }

  ready(): boolean {
    return this.app !== undefined;
  }

  async drain(): Promise<void> {
    // Answers past Fastify (MCP, event streams) do not close their connections; idle ones would delay the end by `keepAliveMs`.
    if (this.app) this.app.getHttpServer().keepAliveTimeout = 1;
    await Promise.all([this.strategy.drain(), this.app?.close(), ...this.mounted.map((part) => part.drain?.())]);
  }

  async stop(): Promise<void> {
    await this.app?.close();
  }
}
