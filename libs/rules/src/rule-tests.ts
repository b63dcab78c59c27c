import { EVERY_TENANT, hasRight, requireRight } from '@toolfleet/access';
import type { DefinitionCache, Toolsets } from '@toolfleet/catalog';
import { invalidRequest, isToolError, ToolError, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { RuleTest, RuleTestResult } from '@toolfleet/contracts/resources';
import { parseToolsetRef } from '@toolfleet/contracts/toolset';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { RecordedPolicy } from '@toolfleet/engine-adapters';
import { argumentReader } from '@toolfleet/engine';
import type { CallBodyReader, CallFeed, CallRecords } from '@toolfleet/records';
import { periodStart, type Clock } from '@toolfleet/resilience';
import { testBudget } from './budget-test.js';
import { PastReading, type PastQuery } from './past-calls.js';
import { PastDefinitions } from './past-definitions.js';
import { testPolicy, type ReadPastArguments } from './policy-test.js';
import { testRateLimit } from './rate-limit-test.js';
import { HOW_FAR, type RuleTally } from './rule-tally.js';
import { testToolset } from './toolset-test.js';

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 30;
/** Calls of one test of which kept arguments are read. */
const MAX_READ = 2_000;
const RULES = ['policy', 'rate_limit', 'toolset', 'budget'] as const;

/** A test with its range of time. */
type TimedTest = Omit<RuleTest, 'from' | 'to'> & { from?: number | undefined; to?: number | undefined };

type Example = RuleTestResult['examples'][number];

/** A rule was tested with these calls. */
interface Tested {
  reading: PastReading;
  tally: RuleTally;
  notes: string[];
}

/**
 * Tests rules with recorded calls, by the code that decides on calls. What callers did comes from the record, what tools are from
 * today's definitions; a rule that depends on anything else is not decidable.
 */
export class RuleTests {
  constructor(
    /** Undefined: no calls are recorded. */
    private readonly records: Pick<CallRecords, 'facts'> | undefined,
    private readonly definitions: Pick<DefinitionCache, 'get'>,
    private readonly toolsets: Pick<Toolsets, 'view'>,
    private readonly feed: Pick<CallFeed, 'one'>,
    private readonly bodies: Pick<CallBodyReader, 'read'>,
    private readonly clock: Clock,
  ) {}

  /** @throws ToolError REQUEST_INVALID, PERMISSION_DENIED, SERVICE_UNAVAILABLE */
  async run(caller: Principal, test: TimedTest): Promise<RuleTestResult> {
    const began = this.clock.monotonic();
    const given = RULES.filter((rule) => test[rule] !== undefined);
    const [rule] = given;
    if (!rule || given.length > 1) throw invalidRequest(`Send exactly one of ${RULES.join(', ')}`, ...given);
    if (!this.records)
      throw new ToolError('NOT_FOUND', { message: 'This gateway records no calls (GATEWAY_CALL_SPOOL is 0)' });
    const now = this.clock.now();
    const query = this.#query(caller, test, rule, now);
    const { reading, tally, notes } = await this.#test(caller, test, query);
    const { examples, ...counts } = tally.result;
    const missing = counts.unrecorded.map(({ fact }) => whyMissing(fact, test.read_arguments === true));
    return {
      rule,
      from: new Date(Math.max(reading.from, query.from)).toISOString(),
      to: new Date(query.to ?? now).toISOString(),
      is_partial: reading.isPartial,
      ...counts,
      examples: await Promise.all(examples.map((example) => this.#named(caller, example))),
      notes: [...notes, ...new Set(missing.filter((note) => note !== undefined))],
      took_ms: Math.round(this.clock.monotonic() - began),
    };
  }

  /** An example with its tenant and user, also where the rule did not ask for them. */
  async #named(caller: Principal, example: Example): Promise<Example> {
    if (example.user_id !== undefined) return example;
    // Deleted meanwhile, or the service is unavailable: the example is shown without them.
    const call = await this.feed.one(caller, example.call_id).catch(() => undefined);
    return call ? { ...example, tenant_id: call.tenant_id, user_id: call.user_id } : example;
  }

  #query(caller: Principal, test: TimedTest, rule: (typeof RULES)[number], now: number): PastQuery {
    const { tenant_id: asked, tool, source, user_id, key_id, agent_id } = test;
    const tenant = asked ?? (rule === 'budget' ? caller.tenantId : undefined);
    const from = test.from ?? now - DEFAULT_DAYS * DAY_MS;
    if (test.to !== undefined && test.to <= from) throw invalidRequest('to must be after from', 'from', 'to');
    const seesAll = hasRight(caller, 'all_calls', EVERY_TENANT);
    if (asked !== undefined && asked !== caller.tenantId)
      requireRight(caller, 'all_calls', `A test with calls of ${asked}`, asked);
    return {
      tenant_id: seesAll ? tenant : caller.tenantId,
      ...{ from, to: test.to, tool: test.rate_limit?.tool ?? tool, source, user_id, key_id, agent_id },
    };
  }

  #test(caller: Principal, test: TimedTest, query: PastQuery): Promise<Tested> {
    const definitions = new PastDefinitions(this.definitions);
    const { policy, rate_limit, toolset, budget } = test;
    if (policy) return this.#policy(caller, test, query, definitions);
    if (rate_limit) return this.#rateLimit(rate_limit, query, definitions);
    if (toolset) return this.#toolset(toolset, query, definitions);
    return this.#budget(budget!, query, definitions);
  }

  async #policy(caller: Principal, test: TimedTest, query: PastQuery, definitions: PastDefinitions): Promise<Tested> {
    requireRight(caller, 'operate_fleet', 'A test of a policy');
    const policy = new RecordedPolicy(test.policy!.files, this.clock);
    const readArguments = test.read_arguments === true ? this.#argumentReader(caller) : undefined;
    const begin = () => this.#read(query);
    const tested = await testPolicy({ policy, definitions, readArguments }, begin);
    const notes = ['Refusals by an interceptor count as refusals by the policy', ...NOTES.definitions];
    return { ...tested, notes };
  }

  /** Reads arguments as their tool got them, of so many calls; each reading is recorded. */
  #argumentReader(caller: Principal): ReadPastArguments {
    let left = MAX_READ;
    return async ({ call_id, tenant_id, toolset }, definition) => {
      if (left === 0) return undefined;
      left -= 1;
      try {
        const { body } = await this.bodies.read(caller, await this.feed.one(caller, call_id));
        const isWhole = !body.cut?.includes('arguments') && !body.redacted?.includes('arguments');
        if (!body.arguments || !isWhole) return undefined;
        return await this.#coerced(body.arguments, definition, tenant_id, toolset);
      } catch (error) {
        if (isToolError(error) && (error.code === 'NOT_FOUND' || error.code === 'PERMISSION_DENIED')) return undefined;
        throw error;
      }
    };
  }

  async #coerced(sent: JsonObject, definition: RegisteredTool, tenantId: string, toolset: string | null) {
    const ref = toolset === null ? undefined : parseToolsetRef(toolset);
    const view = ref && (await this.toolsets.view(tenantId, ref)).viewOf(definition);
    const read = argumentReader(definition).read(sent, view);
    return read.ok ? read.arguments : undefined;
  }

  async #rateLimit(rule: NonNullable<RuleTest['rate_limit']>, query: PastQuery, definitions: PastDefinitions) {
    const reading = this.#read(query);
    const tally = await testRateLimit(rule, definitions, reading);
    return { reading, tally, notes: ['Buckets are full at the start'] };
  }

  async #toolset({ name, spec }: NonNullable<RuleTest['toolset']>, query: PastQuery, definitions: PastDefinitions) {
    const isOfCallers = query.user_id !== undefined || query.key_id !== undefined || query.agent_id !== undefined;
    const reading = this.#read(isOfCallers ? query : { ...query, toolset: name });
    const tally = await testToolset({ name, spec, toolsets: this.toolsets, definitions }, reading);
    const notes = ['Arguments that the toolset sets or hides are not tested', ...NOTES.definitions];
    return { reading, tally, notes };
  }

  async #budget(
    rule: NonNullable<RuleTest['budget']>,
    query: PastQuery,
    definitions: PastDefinitions,
  ): Promise<Tested> {
    const { subject, id, period = 'month', limit_usd: usd, limit_tokens: tokens } = rule;
    if (usd === undefined && tokens === undefined)
      throw invalidRequest('Send limit_usd, limit_tokens or both', 'limit_usd');
    if ((subject === 'tenant') !== (id === undefined))
      throw invalidRequest(
        subject === 'tenant' ? 'A budget of a tenant has no id' : `Send the id of the ${subject}`,
        'id',
      );
    const ofSubject = subject === 'user' ? { user_id: id } : subject === 'key' ? { key_id: id } : {};
    // Earlier spending in the period counts.
    const reading = this.#read({ ...query, ...ofSubject, from: periodStart(period, query.from) });
    const limit = { microUsd: usd === undefined ? null : Math.round(usd * 1_000_000), tokens: tokens ?? null };
    const tally = await testBudget({ limit, period, from: query.from }, definitions, reading);
    const notes = [
      'Reserved amounts are those of today’s definitions',
      'Other budgets and shared leases are not tested',
    ];
    if (period === 'total') notes.push('What was spent before the oldest recorded call is not known');
    return { reading, tally, notes };
  }

  #read(query: PastQuery): PastReading {
    return new PastReading(this.records!, query, this.clock);
  }
}

/** Why calls are not decidable for want of a fact, and advice for the sender; undefined where the fact says it. */
function whyMissing(fact: string, isRead: boolean): string | undefined {
  switch (fact) {
    case 'arguments':
      return isRead
        ? `Arguments are read where they are kept whole and not redacted (call_bodies), of up to ${MAX_READ} calls, by those with the right read_bodies`
        : 'The rule depends on arguments: send read_arguments (fleetctl: --read-arguments) to read those that are kept';
    case HOW_FAR:
      return 'Calls that ended by their deadline, or because the fleet was busy, do not say which checks they came to';
    default:
      return undefined;
  }
}

const NOTES = { definitions: ['Tools have today’s definitions'] };
