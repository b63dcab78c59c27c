import { readQuotas } from '@toolfleet/contracts/account';
import { connectRedis, redisComponent, StoreWatch, toRedisOptions } from '@toolfleet/queue/redis';
import { HOURLY, Rounds, withTimeout } from '@toolfleet/resilience';
import { fleetFileReloader, loadFleetFile, type ServiceHost, type LifecycleComponent } from '@toolfleet/service';
import { connectNats, natsEndpoints } from '@toolfleet/service/nats';
import { EventReporter } from '@toolfleet/transport';
import { BudgetService } from './budget.js';
import type { BudgetConfig } from './budget.config.js';
import { BudgetPurge } from './budget-purge.js';
import { budgetEndpoints } from './budget.endpoint.js';
import { databaseSettings, DAY_MS, serviceDialect } from '@toolfleet/database';
import { drainOutbox } from './drain-outbox.js';
import { limitTable, unlimited, withSettings, type TenantLimits } from './limits.js';
import { RedisReservationStore } from './redis-reservation-store.js';
import { RedisUsageOutbox } from './redis-usage-outbox.js';
import { DEFAULT_RULES } from './reservation-store.js';
import { StoreKeeper } from './redis-store-epoch.js';
import { Upkeep } from './upkeep.js';
import { UsageLedger } from './usage-ledger.js';

/** Budgets of the API are read as often as the configuration file. */
const BUDGETS_EVERY_MS = 3_000;
/** Time between two upkeep rounds over all tenants. */
const FULL_ROUND_MS = 30_000;
/** Limits Redis commands of the upkeep. Callers are answered after STORE_TIMEOUT_MS. */
const COMMAND_TIMEOUT_MS = 10_000;
/** Every call that began before now has been settled or has expired by then. */
const LONGEST_CALL_MS = 660_000;
/** A ledger that takes longer to answer a scrape counts as unreachable. */
const PING_TIMEOUT_MS = 1_000;

/** The components of the service in start order: brokers, ledger, upkeep, and last the endpoint. */
export function budgetComponents(settings: BudgetConfig, host: ServiceHost): LifecycleComponent[] {
  const { clock, logger, metrics } = host;
  const nats = connectNats(settings, host);
  // While Redis is unavailable commands fail at once, because budgets fail closed. All scripts are safe to repeat.
  const redis = connectRedis(settings.REDIS_URL, {
    name: 'budget',
    ...toRedisOptions(settings),
    resend: true,
    commandTimeoutMs: COMMAND_TIMEOUT_MS,
    log: logger,
  });
  const ledger = new UsageLedger(serviceDialect('budget', settings), readQuotas(settings.TENANT_QUOTAS).budgets);
  const store = new RedisReservationStore(redis, DEFAULT_RULES, async (tenantId) => {
    const now = clock.now();
    const scopes = await ledger.spentSince(tenantId, now, now - DEFAULT_RULES.scopeTtlMs);
    return [...scopes, ...(await ledger.spentFrom(tenantId, budget.budgetsOf(tenantId), now))];
  });
  const outbox = new RedisUsageOutbox(redis);
  const reporter = new EventReporter({ service: 'budget', nats, clock, logger });
  const environment = environmentLimits(settings);
  const file = loadFleetFile(settings);
  const limits = limitTable(environment, file.budget);
  const budget: BudgetService = new BudgetService(store, ledger, limits, clock, {
    active: (tenantId) => upkeep.notice(tenantId),
    drain: (tenantId) => drainOutbox(tenantId, outbox, ledger, logger),
    budgetsChanged: (tenantId) => {
      upkeep.compareAgain(tenantId);
      // Calls that ran meanwhile were charged to the scopes of their leases.
      clock.after(LONGEST_CALL_MS, () => upkeep.compareAgain(tenantId));
    },
    spent: (scope, microUsd) => metrics.budgetSpent.inc({ scope }, microUsd),
    reached: (event) => reporter.report(event),
  });
  const upkeep = new Upkeep(
    budget,
    outbox,
    ledger,
    { roundMs: settings.BUDGET_UPKEEP_MS, fullRoundMs: FULL_ROUND_MS },
    { clock, logger, metrics },
  );
  const purges = new BudgetPurge({ ledger, outbox, budget }, { clock, logger });
  redis.on('ready', () => upkeep.reconnected());
  const keptDays = settings.BUDGET_LEDGER_RETENTION_DAYS;
  // Not part of readiness: without the ledger, calls run and their usage waits in Redis.
  metrics.onScrape(async () => {
    const answers = await withTimeout(clock, PING_TIMEOUT_MS, ledger.ping()).then(
      () => 1,
      () => 0,
    );
    metrics.componentReady.set({ component: 'ledger' }, answers);
  });
  return [
    nats.asComponent(),
    reporter,
    redisComponent(redis, settings.REDIS_URL),
    {
      name: 'ledger',
      settings: databaseSettings(settings),
      start: () => ledger.open(),
      stop: () => ledger.close(),
    },
    new StoreWatch(redis, settings.REDIS_URL, host, new StoreKeeper(redis, ledger.epoch, clock)),
    fleetFileReloader(settings, file, host, (changed) => budget.setLimits(limitTable(environment, changed.budget))),
    budgetRefresh(budget, host),
    upkeep,
    ...(keptDays === undefined ? [] : [ledgerRetention(ledger, keptDays, host)]),
    ...natsEndpoints(nats, host, budgetEndpoints(budget, purges, settings.STORE_TIMEOUT_MS)),
  ];
}

/**
 * Reads the budgets that were set over the API, at the start and again and again, because other replicas set them as well. The start
 * rejects when they cannot be read: without them, calls would run that a budget refuses. Later, those that were read last apply.
 */
function budgetRefresh(budget: BudgetService, { clock, logger }: ServiceHost): LifecycleComponent {
  const rounds = new Rounds({
    clock,
    everyMs: BUDGETS_EVERY_MS,
    work: () => budget.readBudgets(),
    onFailure: (error) => logger.warn({ error }, 'budgets cannot be read; those that were read last apply'),
    onRecovery: () => logger.info('budgets can be read again'),
  });
  const start = async () => {
    await budget.readBudgets();
    rounds.start();
  };
  return { name: 'budgets', start, stop: () => rounds.stop() };
}

/** Replaces ledger rows of days older than the retention by sums of each day: once after the start, then every hour. */
function ledgerRetention(ledger: UsageLedger, keptDays: number, { clock, logger }: ServiceHost): Rounds {
  return new Rounds({
    name: 'ledger retention',
    clock,
    ...HOURLY,
    work: async () => {
      const rows = await ledger.rollUpBefore(clock.now() - keptDays * DAY_MS);
      if (rows > 0) logger.info({ rows, kept_days: keptDays }, 'old usage was replaced by sums of each day');
    },
    onFailure: (error) => logger.warn({ error }, 'old usage cannot be replaced by sums; it stays in the ledger'),
  });
}

function environmentLimits(settings: BudgetConfig): TenantLimits {
  return withSettings(unlimited(), {
    max_cost_per_request: settings.MAX_COST_PER_REQUEST,
    max_tokens_per_request: settings.MAX_TOKENS_PER_REQUEST,
    token_budget_per_agent: settings.TOKEN_BUDGET_PER_AGENT,
    token_budget_per_task: settings.TOKEN_BUDGET_PER_TASK,
  });
}
