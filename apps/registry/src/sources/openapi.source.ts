import { ToolError, toToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type {
  DefinitionRegister,
  DefinitionRegisterReply,
  OpenApiRegister,
  OpenApiRegisterReply,
  OpenApiValidate,
  OpenApiValidateReply,
} from '@toolfleet/contracts/registry';
import { SIZES } from '@toolfleet/contracts/subjects';
import type { EgressClient } from '@toolfleet/egress';
import { Turns, type CancelTimer, type Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { registrationStamp, type Footing, type StoredRegistration } from '../definition-store.js';
import { isSuperseded, refuseNamesOfOthers } from '../refusals.js';
import { convertEntry, type ConvertedEntry } from './openapi-convert.js';
import { openApiSource } from './openapi-definitions.js';
import { readOpenApiEntry, type OpenApiEntry } from './openapi-entry.js';
import type { SealFor } from './openapi-secrets.js';
import type { FetchedSpec } from './openapi-spec-cache.js';
import { SpecReader, type SpecReaderFigures } from './openapi-spec-reader.js';
import { shownWarning, SHOWN_WARNINGS, validateOpenApi } from './validate-openapi.js';

/** What the source needs of the registry. */
export interface OpenApiSourcePorts {
  register(message: DefinitionRegister, footing?: Footing): Promise<DefinitionRegisterReply>;
  egress: EgressClient;
  /** Seals literal secrets of a registration; undefined when `REGISTRY_SECRET_KEY` is not set. */
  sealFor?: SealFor;
}

/** Figures of the source (`OPENAPI_SOURCE_KEYS`). */
export interface OpenApiSourceFigures extends SpecReaderFigures {
  /** 0 = documents are not looked at again unless their entry says so. */
  refreshMs: Milliseconds;
}

interface Watched {
  entry: OpenApiEntry;
  /** Of a source that was registered at run time. */
  registration: StoredRegistration | undefined;
  sha256: string;
  failures: number;
  cancel?: CancelTimer;
}

const FIRST_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;
const MIN_REFRESH_MS = 10_000;

/**
 * Keeps the tools of OpenAPI documents current: those of the configuration file from the start, others when they are
 * registered. A document that changed is registered again; the registrar's change event and the log say what became of
 * its tools. A document that cannot be read keeps the tools it gave before.
 */
export class OpenApiSource {
  private readonly specs: SpecReader;
  private readonly watched = new Map<string, Watched>();
  /** What was found about one source is registered in the order in which it replaces one another. */
  private readonly turns = new Turns();
  /** Kept registrations that cannot be read, by stamp, so that each is told once. */
  private readonly unreadable = new Set<string>();
  private readonly stopped = new AbortController();

  constructor(
    private readonly ports: OpenApiSourcePorts,
    private readonly figures: OpenApiSourceFigures,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    this.specs = new SpecReader(ports.egress, figures);
  }

  /** Begins with the entries of the configuration file. A document that is away holds nothing up and is tried again. */
  start(entries: readonly OpenApiEntry[]): void {
    for (const entry of entries) void this.look(this.watch(entry), true);
  }

  /** Takes up all registrations there are and drops those that are gone; documents are tried again until they can be read. */
  async follow(kept: readonly StoredRegistration<JsonObject>[]): Promise<void> {
    const names = new Set(kept.map(({ name }) => name));
    for (const [name, { registration }] of this.watched) if (registration && !names.has(name)) this.forget(name);
    for (const registration of kept) {
      const stamp = registrationStamp(registration);
      const watched = this.watched.get(registration.name)?.registration;
      if ((watched && registrationStamp(watched) === stamp) || this.unreadable.has(stamp)) continue;
      const { body } = registration;
      const entry = readOpenApiEntry(String(body['name']), { ...body });
      if (typeof entry === 'string') {
        this.unreadable.add(stamp);
        this.logger.error({ collection: registration.name }, `a kept registration ${entry}`);
      } else void this.look(this.watch(entry, registration), false);
    }
  }

  /** Stops watching one source by its name. */
  forget(name: string): void {
    this.watched.get(name)?.cancel?.();
    this.watched.delete(name);
  }

  /** Ends all watching. */
  stop(): void {
    this.stopped.abort();
    for (const watched of this.watched.values()) watched.cancel?.();
  }

  /**
   * A registration at run time. Problems of the document are an answer with `success: false`.
   * @param registration kept together with the tools; without one nothing is kept
   * @throws ToolError REQUEST_INVALID for a malformed message, TOOL_NAME_CONFLICT when every name belongs to others
   */
  async add(message: OpenApiRegister, registration?: StoredRegistration): Promise<OpenApiRegisterReply> {
    const entry = readOpenApiEntry(message.name, { ...message } as unknown as JsonObject);
    if (typeof entry === 'string') {
      throw new ToolError('REQUEST_INVALID', { message: `The registration ${entry}` });
    }
    const base = {
      collection_name: entry.name,
      rate_limit: entry.rate_limit ?? 60,
      timeout_seconds: entry.timeout_seconds ?? 30,
      max_response_bytes: Math.min(entry.max_response_bytes ?? SIZES.upstreamResponse, SIZES.upstreamResponse),
    };
    try {
      const { converted, spec } = await this.read(entry, false);
      const reply = await this.turns.take(openApiSource(entry).name, async () => {
        const given = await this.register(entry, converted, spec, registration && { registration, isNew: true });
        if (given.registered.length > 0 || given.refused.length === 0)
          this.schedule(Object.assign(this.watch(entry, registration), { sha256: spec.sha256 }));
        return given;
      });
      refuseNamesOfOthers(reply);
      const refused = [...converted.refused, ...reply.refused];
      return {
        ...base,
        success: reply.registered.length > 0 || refused.length === 0,
        operations_registered: reply.registered,
        message: messageOf(reply.registered.length, refused.length),
        refused: refused.slice(0, SHOWN_WARNINGS),
        warnings: [
          ...reply.quarantined.map((name) => `${name} awaits approval: its definition changed or looks suspicious`),
          ...converted.warnings.map(shownWarning),
        ].slice(0, SHOWN_WARNINGS),
      };
    } catch (error) {
      const known = toToolError(error);
      if (known.code === 'TOOL_NAME_CONFLICT' || known.code === 'INTERNAL') throw known;
      const kind = known.details?.reason === 'SPEC_PARSE_ERROR' ? 'Parse error' : 'Registration error';
      return {
        ...base,
        success: false,
        operations_registered: [],
        message: `${kind}: ${known.message}`,
        refused: [],
        warnings: [],
      };
    }
  }

  /** Reads a document and registers nothing. */
  validate(message: OpenApiValidate): Promise<OpenApiValidateReply> {
    return validateOpenApi(message, this.figures.maxSpecBytes, (entry) =>
      this.specs.read(entry, false, this.stopped.signal),
    );
  }

  /** The document and what it gives; that is empty when the document is the known one. */
  private async read(
    entry: OpenApiEntry,
    trusted: boolean,
    known?: string,
  ): Promise<{ converted: ConvertedEntry; spec: FetchedSpec; unchanged: boolean }> {
    const spec = await this.specs.read(entry, trusted, this.stopped.signal);
    if (spec.sha256 === known) return { converted: NOTHING, spec, unchanged: true };
    const parts = { egress: this.ports.egress, clock: this.clock, maxSpecBytes: this.figures.maxSpecBytes };
    const converted = await convertEntry(
      entry,
      spec.text,
      spec.url || undefined,
      this.ports.sealFor?.(openApiSource(entry).name),
      parts,
    );
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
    spec: FetchedSpec,
    footing: Footing | undefined,
  ): Promise<DefinitionRegisterReply> {
    // A document read from a URL is somebody else's word; one in the entry or in a file is that of whoever registered it.
    const options: JsonObject = spec.url === '' ? {} : { document: spec.sha256, pin: entry.pin ?? 'refuse' };
    return this.ports.register({ source: openApiSource(entry), definitions, replace: true, options }, footing);
  }

  private watch(entry: OpenApiEntry, registration?: StoredRegistration): Watched {
    const key = openApiSource(entry).name;
    this.watched.get(key)?.cancel?.();
    const watched: Watched = { entry, registration, sha256: '', failures: 0 };
    this.watched.set(key, watched);
    return watched;
  }

  /** False once it was replaced or forgotten: what it finds is of no use any more. */
  private isCurrent(watched: Watched): boolean {
    return !this.stopped.signal.aborted && this.watched.get(openApiSource(watched.entry).name) === watched;
  }

  private async look(watched: Watched, trusted: boolean): Promise<void> {
    const { entry, registration } = watched;
    try {
      const { converted, spec, unchanged } = await this.read(entry, trusted, watched.sha256);
      await this.turns.take(openApiSource(entry).name, async () => {
        if (!this.isCurrent(watched)) return;
        if (!unchanged) {
          const reply = await this.register(entry, converted, spec, registration && { registration, isNew: false });
          this.report(entry, converted, reply);
        }
        watched.failures = 0;
        watched.sha256 = spec.sha256;
      });
      this.schedule(watched, trusted);
    } catch (error) {
      if (!this.isCurrent(watched)) return;
      if (isSuperseded(error)) return this.forget(openApiSource(entry).name);
      watched.failures += 1;
      this.logger.warn(
        { collection: entry.name, error: toToolError(error).message },
        'an OpenAPI document cannot be registered',
      );
      this.schedule(watched, trusted, Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (watched.failures - 1)));
    }
  }

  /** The diff of a registration; the registrar publishes the same as `registry.definition.changed`. */
  private report(entry: OpenApiEntry, converted: ConvertedEntry, reply: DefinitionRegisterReply): void {
    const { added, changed, removed, registered } = reply;
    const refused = [...converted.refused, ...reply.refused];
    const warnings = converted.warnings.length;
    this.logger.info(
      { collection: entry.name, tools: registered.length, added, changed, removed, refused: refused.length, warnings },
      'an OpenAPI document was registered',
    );
    if (reply.quarantined.length > 0) {
      const tools = reply.quarantined.slice(0, SHOWN_WARNINGS);
      this.logger.warn(
        { collection: entry.name, held: reply.quarantined.length, tools },
        'changed or suspicious operations await approval',
      );
    }
    if (entry.pin === 'warn' && changed.length > 0)
      this.logger.warn({ collection: entry.name, changed }, 'operations changed without an approval (pin: warn)');
    for (const { name, message } of refused.slice(0, SHOWN_WARNINGS)) {
      this.logger.warn({ collection: entry.name, operation: name, reason: message }, 'an operation was refused');
    }
  }

  private schedule(watched: Watched, trusted = false, delayMs?: number): void {
    watched.cancel?.();
    const { refresh_seconds: seconds, spec_inline: inline } = watched.entry;
    const refreshMs = seconds === undefined ? this.figures.refreshMs : seconds * 1_000;
    const waitMs = delayMs ?? (refreshMs === 0 ? 0 : Math.max(MIN_REFRESH_MS, refreshMs));
    if (!this.isCurrent(watched)) return;
    if (waitMs === 0 || (inline && delayMs === undefined)) return;
    watched.cancel = this.clock.after(waitMs, () => void this.look(watched, trusted));
  }
}

const NOTHING: ConvertedEntry = { definitions: [], refused: [], warnings: [] };

function messageOf(registered: number, refused: number): string {
  return refused > 0
    ? `Registered ${registered} operations, refused ${refused}`
    : `Registered ${registered} operations`;
}
