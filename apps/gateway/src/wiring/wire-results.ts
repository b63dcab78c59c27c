import type { CallSight } from '@toolfleet/access';
import type { CallBody } from '@toolfleet/contracts';
import { QUEUES } from '@toolfleet/contracts/subjects';
import { DEFAULT_RETENTION, RedisJournal, type KeyHolders } from '@toolfleet/journal';
import { JobQueue, StoreGeneration } from '@toolfleet/queue';
import { ContentReadings, NatsApprovalRecords, CallRecords } from '@toolfleet/records';
import {
  ApprovalDecisions,
  approvalWakes,
  AsyncCalls,
  CallEnds,
  CallResultShelf,
  LostCalls,
  ParkedCalls,
  parkedLookup,
  RedisCallStore,
  RedisKeptResults,
  ResultReader,
  resultStore,
  SelectPool,
  type AsyncCallJob,
} from '@toolfleet/results';
import type { ServiceHost } from '@toolfleet/service';
import type { GatewayConfig } from '../gateway.config.js';
import type { Auth } from './wire-auth.js';
import { knownBase } from '../server/public-origin.js';
import { queueOptions, type Brokers } from './brokers.js';

/** How long a result can be read by its handle: longer than the turn of an agent that got it. */
const HANDLE_TTL_SECONDS = 3_600;

/** What keeps outcomes and results of calls, and reads them again. */
export type Results = ReturnType<typeof wireResults>;

/** Builds the stores of calls and results, and their readers. None of them runs a call, so they come before the engine. */
export function wireResults(
  settings: GatewayConfig,
  host: ServiceHost,
  brokers: Brokers,
  { keys }: Pick<Auth, 'keys'>,
  sight: CallSight,
  holders: KeyHolders,
  hasRecords: () => boolean,
) {
  const { clock, logger } = host;
  const { redis, nats } = brokers;
  const now = () => clock.now();
  const gatewayUrl = knownBase(settings);
  const largeResults = resultStore(settings, host);
  const kept = new RedisKeptResults(redis, settings.RESULT_QUOTA_MB * 1024 * 1024, largeResults);
  const journal = new RedisJournal(redis, clock, DEFAULT_RETENTION, kept, largeResults, holders);
  const handles = new RedisCallStore(redis, HANDLE_TTL_SECONDS, now, kept, largeResults);
  const store = new RedisCallStore(redis, settings.CALL_RESULT_TTL_SECONDS, now, kept, largeResults);
  const queue = new JobQueue<AsyncCallJob>({
    name: QUEUES.toolCalls,
    ...queueOptions(settings, brokers),
    shareOf: (job) => job.tenant_id,
  });
  const generation = new StoreGeneration(redis);
  const publish = (subject: string, body: CallBody): void =>
    nats.connected
      ? nats.publish(subject, body)
      : logger.warn({ subject }, 'result not published: NATS is disconnected');
  const isRecorded = settings.GATEWAY_CALL_SPOOL > 0;
  const approvals = isRecorded ? new NatsApprovalRecords(nats) : undefined;
  const lost = new LostCalls({ queue, store, journal, ends: new CallEnds(store, publish), clock });
  const asyncCalls = new AsyncCalls({
    queue,
    store,
    generation,
    journal,
    results: kept,
    lost,
    sight,
    readings: new ContentReadings(isRecorded ? new CallRecords(nats) : undefined, logger),
    parked: approvals && parkedLookup(approvals),
    clock,
    maxCallMs: settings.GATEWAY_ASYNC_TIMEOUT_MS,
  });
  const parked =
    approvals &&
    new ParkedCalls({
      records: approvals,
      asyncCalls,
      store,
      clock,
      maxWaitMs: settings.GATEWAY_APPROVAL_SECONDS * 1_000,
      keptSeconds: settings.CALL_RESULT_TTL_SECONDS,
      gatewayUrl,
    });
  const selector = new SelectPool(clock);
  return {
    kept,
    /** Keeps large results outside Redis; undefined when none is configured. */
    largeResults,
    journal,
    store,
    queue,
    generation,
    /** Publishes the result of an asynchronous call. */
    publish,
    lost,
    asyncCalls,
    /** Calls that people decide on; undefined when no calls are recorded. */
    parked,
    decisions: new ApprovalDecisions({
      records: approvals,
      calls: parked,
      keys,
      clock,
      logger,
      gatewayUrl,
    }),
    wakes: parked && approvalWakes({ records: approvals, calls: parked, clock, isServed: hasRecords }),
    selector,
    reader: new ResultReader(asyncCalls, selector),
    shelf: new CallResultShelf(handles, kept, clock, HANDLE_TTL_SECONDS * 1_000),
  };
}
