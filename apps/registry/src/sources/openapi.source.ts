import { ToolError, toToolError, type EpochMs, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type {
  DefinitionRegister,
  DefinitionRegisterReply,
  OpenApiRegister,
  OpenApiRegisterReply,
  OpenApiValidate,
  OpenApiValidateReply,
} from '@toolfleet/contracts/registry';
import type { ToolSource } from '@toolfleet/contracts/tool-definition';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { EgressClient } from '@toolfleet/egress';
import { KeyedMutex, Semaphore, type CancelTimer, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { registrationStamp, type Footing, type SourceLook, type StoredRegistration } from '../definition-store.js';
import { checkNameConflict } from '../definition-service.js';
import { approvalNote } from '../quarantine.js';
import { isSuperseded } from '../source-store.js';
import { convertEntry, MAX_WARNINGS, validateDocument, warningText, type ConvertedEntry } from './openapi-convert.js';
import { openApiSource } from './openapi-definitions.js';
import { faultLine, readOpenApiEntry, type Fault, type OpenApiEntry } from '@toolfleet/fleet-file';
import type { SealFor } from './secrets.js';
import { toLookState } from './source-look.js';
import { SpecReader, type LoadedSpec, type SpecReaderOptions } from './spec-reader.js';

interface OpenApiSourceDeps {
  register(message: DefinitionRegister, footing?: Footing): Promise<DefinitionRegisterReply>;
  egress: EgressClient;
  /** Records what a look at a source gave; never rejects. */
  keepLook(source: ToolSource, look: SourceLook): Promise<void>;
  /** Seals literal secrets of a registration; undefined when `REGISTRY_SECRET_KEY` is not set. */
  sealFor?: SealFor;
}

interface OpenApiSourceOptions extends SpecReaderOptions {
  /** Interval at which documents are read again; 0 = never, unless their entry has `refresh_seconds`. */
  refreshMs: Milliseconds;
}

/** A document that is read again and again. */
interface WatchedDocument {
  entry: OpenApiEntry;
  /** Set for a source that was registered at run time. */
  registration: StoredRegistration | undefined;
  /** The entry is from the configuration file, which may name any file of this machine. */
  trusted: boolean;
  /** SHA-256 of the document registered last; empty before. */
  sha256: string;
  failures: number;
  /** Tools that the document registered last gave. */
  tools: number;
  /** What the document registered last gave; repeated while the document is unchanged. */
  outcome: Omit<SourceLook, 'at' | 'nextAt'>;
  cancel?: CancelTimer;
  /** When `cancel` ends the wait for the next read. */
  nextAt?: EpochMs;
}

const FIRST_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;
const MIN_REFRESH_MS = 10_000;

/**
 * Keeps the tools of OpenAPI documents current: those of the configuration file from the start, others once they are registered.
 * A changed document is registered again, and the changes are logged. While a document cannot be read its tools stay.
 *
 * As in `McpSource`, results of one source are registered one after another and only for the current `WatchedDocument`, because a
 * read can finish after its source was replaced or removed.
 */
export class OpenApiSource {
  private readonly specs: SpecReader;
  private readonly watched = new Map<string, WatchedDocument>();
  private readonly mutex = new KeyedMutex();
  /** One conversion at a time: each takes several times the memory of its document. */
  private readonly conversions = new Semaphore(1);
  /** Stamps of invalid stored registrations, so that each is logged once. */
  private readonly unreadable = new Set<string>();
  private readonly stopped = new AbortController();

  constructor(
    private readonly deps: OpenApiSourceDeps,
    private readonly options: OpenApiSourceOptions,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    this.specs = new SpecReader(deps.egress, options);
  }

  /** Takes new and changed entries of the configuration file. Does not wait for their documents. */
  start(entries: readonly OpenApiEntry[]): void {
    for (const entry of entries) void this.refresh(this.watch(entry, undefined, true));
  }

  /** Adopts new and replaced registrations, and forgets those that are no longer stored. */
  async follow(stored: readonly StoredRegistration<JsonObject>[]): Promise<void> {
    const names = new Set(stored.map(({ name }) => name));
    for (const [name, { registration }] of this.watched) if (registration && !names.has(name)) this.forget(name);
    for (const registration of stored) {
      const stamp = registrationStamp(registration);
      const watched = this.watched.get(registration.name)?.registration;
      if ((watched && registrationStamp(watched) === stamp) || this.unreadable.has(stamp)) continue;
      const { body } = registration;
      const entry = readRegistration(body);
      if (Array.isArray(entry)) {
        const reason = entry.map(faultLine).join('; ');
        this.unreadable.add(stamp);
        this.logger.error({ collection: registration.name }, `a stored registration is invalid: ${reason}`);
        const error = `The stored registration is invalid: ${reason}; register the document again`;
        const look: SourceLook = { state: 'failed', at: this.clock.now(), error, refused: [], notes: [] };
        await this.deps.keepLook({ kind: 'openapi', name: registration.name }, look);
      } else void this.refresh(this.watch(entry, registration));
    }
  }

  /** Reads one document now; resolves when it is registered, or has failed. @returns false for other sources */
  async look(name: string): Promise<boolean> {
    const watched = this.watched.get(name);
    if (watched) await this.refresh(watched);
    return watched !== undefined;
  }

  /** Registers the tools of a declared source again that the store lost. */
  repeat(entry: OpenApiEntry): void {
    const watched = this.watched.get(openApiSource(entry).name);
    if (watched && watched.tools > 0) this.start([entry]);
  }

  /** Stops refreshing one source. */
  forget(name: string): void {
    this.watched.get(name)?.cancel?.();
    this.watched.delete(name);
  }

  /** Ends all refreshing. */
  stop(): void {
    this.stopped.abort();
    for (const watched of this.watched.values()) watched.cancel?.();
  }

  /**
   * Registers a document at run time. Problems of the document are a reply with `success: false`.
   * @param registration stored together with the tools; without one nothing is stored
   * @throws ToolError REQUEST_INVALID for a malformed message, TOOL_NAME_CONFLICT when all names belong to other sources
   */
  async add(message: OpenApiRegister, registration?: StoredRegistration): Promise<OpenApiRegisterReply> {
    const entry = readRegistration(message as unknown as JsonObject);
    if (Array.isArray(entry)) {
      const reason = entry.map(faultLine).join('; ');
      throw new ToolError('REQUEST_INVALID', { message: `The registration is invalid: ${reason}` });
    }
    const base = {
      collection_name: entry.name,
      rate_limit: entry.rate_limit ?? 60,
      timeout_seconds: entry.timeout_seconds ?? 30,
      max_response_bytes: Math.min(entry.max_response_bytes ?? SIZES.upstreamResponse, SIZES.upstreamResponse),
    };
    try {
      const { converted, spec } = await this.read(entry, false);
      const reply = await this.mutex.run(openApiSource(entry).name, async () => {
        const given = await this.register(entry, converted, spec, registration && { registration, isNew: true });
        if (given.registered.length > 0 || given.refused.length === 0) {
          const watched = this.watch(entry, registration);
          watched.tools = given.registered.length;
          await this.onRegistered(watched, spec, toOutcome(converted, given));
        }
        return given;
      });
      checkNameConflict(reply);
      const refused = [...converted.refused, ...reply.refused];
      return {
        ...base,
        success: reply.registered.length > 0 || refused.length === 0,
        operations_registered: reply.registered,
        message: [summarize(reply.registered.length, refused.length), approvalNote(reply.quarantined) ?? []]
          .flat()
          .join('; '),
        refused: refused.slice(0, MAX_WARNINGS),
        warnings: converted.warnings.map(warningText).slice(0, MAX_WARNINGS),
        quarantined: reply.quarantined,
      };
    } catch (error) {
      const known = toToolError(error);
      if (known.code === 'TOOL_NAME_CONFLICT' || known.code === 'INTERNAL') throw known;
      const kind = known.facts?.reason === 'unparsable' ? 'Parse error' : 'Registration error';
      return {
        ...base,
        success: false,
        operations_registered: [],
        message: `${kind}: ${known.message}`,
        refused: [],
        warnings: [],
        quarantined: [],
      };
    }
  }

  /** Reports what registering a document would give. */
  validate(message: OpenApiValidate): Promise<OpenApiValidateReply> {
    return validateDocument(message, this.options.maxSpecBytes, (entry) =>
      this.specs.read(entry, false, this.stopped.signal),
    );
  }

  /** Reads and converts a document. A document with the hash `knownSha256` is not converted. */
  private async read(
    entry: OpenApiEntry,
    trusted: boolean,
    knownSha256?: string,
  ): Promise<{ converted: ConvertedEntry; spec: LoadedSpec; unchanged: boolean }> {
    const spec = await this.specs.read(entry, trusted, this.stopped.signal);
    if (spec.sha256 === knownSha256) return { converted: NOTHING, spec, unchanged: true };
    const converted = await (this.conversions.run(() =>
      convertEntry(entry, spec, this.deps.sealFor?.(openApiSource(entry).name), {
        egress: this.deps.egress,
        clock: this.clock,
        maxSpecBytes: this.options.maxSpecBytes,
      }),
    ) as Promise<ConvertedEntry>);
    if (converted.definitions.length === 0 && converted.refused.length > 0) {
      throw new ToolError('SPEC_INVALID', {
        message: converted.refused[0]?.message ?? 'no operation is left',
        details: { reason: converted.refused[0]?.code ?? 'SERVER_URL_MISSING' },
      });
    }
    return { converted, spec, unchanged: false };
  }

  private register(
    entry: OpenApiEntry,
    { definitions }: ConvertedEntry,
    spec: LoadedSpec,
    footing: Footing | undefined,
  ): Promise<DefinitionRegisterReply> {
    // Only documents behind a URL are pinned. An inline document or a file is written by the one who registers it.
    const options: JsonObject = spec.url === '' ? {} : { document: spec.sha256, pin: entry.pin ?? 'refuse' };
    return this.deps.register({ source: openApiSource(entry), definitions, replace: true, options }, footing);
  }

  private watch(entry: OpenApiEntry, registration?: StoredRegistration, trusted = false): WatchedDocument {
    const key = openApiSource(entry).name;
    this.watched.get(key)?.cancel?.();
    const watched: WatchedDocument = {
      entry,
      registration,
      trusted,
      sha256: '',
      failures: 0,
      tools: 0,
      outcome: NOTHING_SEEN,
    };
    this.watched.set(key, watched);
    return watched;
  }

  /** False after the source was replaced or forgotten; results of its refresh are then discarded. */
  private isCurrent(watched: WatchedDocument): boolean {
    return !this.stopped.signal.aborted && this.watched.get(openApiSource(watched.entry).name) === watched;
  }

  private async refresh(watched: WatchedDocument): Promise<void> {
    const { entry, registration, trusted } = watched;
    try {
      const { converted, spec, unchanged } = await this.read(entry, trusted, watched.sha256);
      await this.mutex.run(openApiSource(entry).name, async () => {
        if (!this.isCurrent(watched)) return;
        let { outcome } = watched;
        if (!unchanged) {
          const reply = await this.register(entry, converted, spec, registration && { registration, isNew: false });
          this.logOutcome(entry, converted, reply);
          outcome = toOutcome(converted, reply);
          watched.tools = reply.registered.length;
        }
        await this.onRegistered(watched, spec, outcome);
      });
    } catch (error) {
      if (!this.isCurrent(watched)) return;
      if (isSuperseded(error)) return this.forget(openApiSource(entry).name);
      watched.failures += 1;
      const { message } = toToolError(error);
      this.logger.warn(
        { collection: entry.name, error: message },
        'an OpenAPI document cannot be registered; trying again',
      );
      const at = this.clock.now();
      this.schedule(watched, Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (watched.failures - 1)));
      const { nextAt } = watched;
      await this.deps.keepLook(openApiSource(entry), {
        state: 'failed',
        at,
        error: message,
        refused: [],
        notes: [],
        nextAt,
      });
    }
  }

  /** Notes the document whose tools are registered now, and plans the next read. */
  private async onRegistered(
    watched: WatchedDocument,
    { sha256 }: LoadedSpec,
    outcome: WatchedDocument['outcome'],
  ): Promise<void> {
    Object.assign(watched, { failures: 0, sha256, outcome });
    const at = this.clock.now();
    this.schedule(watched);
    await this.deps.keepLook(openApiSource(watched.entry), { ...outcome, at, nextAt: watched.nextAt });
  }

  private logOutcome(entry: OpenApiEntry, converted: ConvertedEntry, reply: DefinitionRegisterReply): void {
    const { added, changed, removed, registered } = reply;
    const refused = [...converted.refused, ...reply.refused];
    const warnings = converted.warnings.length;
    this.logger.info(
      { collection: entry.name, tools: registered.length, added, changed, removed, refused: refused.length, warnings },
      'an OpenAPI document was registered',
    );
    if (reply.quarantined.length > 0) {
      const tools = reply.quarantined.slice(0, MAX_WARNINGS).map(({ name }) => name);
      this.logger.warn(
        { collection: entry.name, held: reply.quarantined.length, tools },
        'changed or suspicious operations await approval',
      );
    }
    if (entry.pin === 'warn' && changed.length > 0)
      this.logger.warn({ collection: entry.name, changed }, 'operations changed without an approval (pin: warn)');
    for (const { name, message } of refused.slice(0, MAX_WARNINGS)) {
      this.logger.warn({ collection: entry.name, operation: name, reason: message }, 'an operation was refused');
    }
  }

  private schedule(watched: WatchedDocument, delayMs?: number): void {
    watched.cancel?.();
    watched.nextAt = undefined;
    const { refresh_seconds: seconds, spec_inline: inline } = watched.entry;
    const refreshMs = seconds === undefined ? this.options.refreshMs : seconds * 1_000;
    const waitMs = delayMs ?? (refreshMs === 0 ? 0 : Math.max(MIN_REFRESH_MS, refreshMs));
    if (!this.isCurrent(watched)) return;
    if (waitMs === 0 || (inline && delayMs === undefined)) return;
    watched.nextAt = this.clock.now() + waitMs;
    watched.cancel = this.clock.after(waitMs, () => void this.refresh(watched));
  }
}

/** Checks the fields of a registration, which has its name among them. */
function readRegistration({ name, ...fields }: JsonObject): OpenApiEntry | Fault[] {
  return readOpenApiEntry(String(name), fields);
}

const NOTHING: ConvertedEntry = { definitions: [], refused: [], warnings: [] };
const NOTHING_SEEN: WatchedDocument['outcome'] = { state: 'ok', refused: [], notes: [] };

function toOutcome(converted: ConvertedEntry, reply: DefinitionRegisterReply): WatchedDocument['outcome'] {
  const refused = [...converted.refused, ...reply.refused];
  return { ...toLookState(reply.registered, refused), notes: converted.warnings.map(warningText) };
}

function summarize(registered: number, refused: number): string {
  return refused > 0
    ? `Registered ${registered} operations, refused ${refused}`
    : `Registered ${registered} operations`;
}
