import {
  invalidRequest,
  jsonObject,
  ToolError,
  toToolError,
  type JsonObject,
  type Milliseconds,
} from '@toolfleet/contracts';
import type {
  DefinitionRegisterReply,
  OpenApiRegisterReply,
  OpenApiValidate,
  OpenApiValidateReply,
  RefusedTool,
} from '@toolfleet/contracts/registry';
import { DEFAULT_RATE_LIMIT, type ToolSource } from '@toolfleet/contracts/tool-definition';
import { openapiResponseLimit } from '@toolfleet/contracts/subjects';
import type { EgressClient } from '@toolfleet/egress';
import type { Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { PREVIEWED } from './mcp-register-reply.js';
import { registrationStamp, type Footing, type SourceLook, type StoredRegistration } from '../definition-store.js';
import { checkNameConflict } from '../definition-service.js';
import { approvalNote } from '../quarantine.js';
import type { ConvertedEntry } from './openapi-child.js';
import { MAX_WARNINGS, warningText, type OpenApiConversions } from './openapi-convert.js';
import { openApiSource } from './openapi-definitions.js';
import { faultLine, readOpenApiEntry, type Fault, type OpenApiEntry } from '@toolfleet/fleet-file';
import type { SealFor } from './secrets.js';
import { summarizeRefusals, toLookState } from './source-look.js';
import { WatchedSources, type SourceDeps, type Watched } from './source-watch.js';
import { SpecReader, type LoadedSpec, type SpecReaderOptions } from './spec-reader.js';

interface OpenApiSourceDeps extends SourceDeps {
  egress: EgressClient;
  conversions: OpenApiConversions;
  /** Seals literal secrets of a registration; undefined when `REGISTRY_SECRET_KEY` is not set. */
  sealFor?: SealFor;
}

interface OpenApiSourceOptions extends SpecReaderOptions {
  /** Interval at which documents are read again; 0 = never, unless their entry has `refresh_seconds`. */
  refreshMs: Milliseconds;
}

/** A document that is read again and again. */
interface WatchedDocument extends Watched<OpenApiEntry> {
  /** The entry is from the configuration file and may name any file of this machine. */
  readonly trusted: boolean;
  /** SHA-256 of the document registered last; empty before. */
  sha256: string;
  /** Result of the document registered last; repeated while the document is unchanged. */
  outcome: Omit<SourceLook, 'at' | 'nextAt'>;
}

/** Failures of a registration that are not problems of its document. */
const THROWN: ReadonlySet<string> = new Set(['TOOL_NAME_CONFLICT', 'INTERNAL', 'QUEUE_FULL', 'QUOTA_EXCEEDED']);
const MIN_REFRESH_MS = 10_000;

/**
 * Keeps the tools of OpenAPI documents current: from the configuration file at the start, others once they are registered.
 * A changed document is registered again, and the changes are logged.
 */
export class OpenApiSource extends WatchedSources<OpenApiEntry, WatchedDocument> {
  private readonly specs: SpecReader;
  /** Stamps of invalid stored registrations, so that each is logged once. */
  private readonly unreadable = new Set<string>();

  constructor(
    private readonly deps: OpenApiSourceDeps,
    private readonly options: OpenApiSourceOptions,
    clock: Clock,
    logger: Logger,
  ) {
    super(deps.keepLook, clock, logger);
    this.specs = new SpecReader(deps.egress, options);
  }

  protected override source(entry: OpenApiEntry): ToolSource {
    return openApiSource(entry);
  }

  /** Takes new and changed entries of the configuration file. Does not wait for their documents. */
  start(entries: readonly OpenApiEntry[]): void {
    for (const entry of entries) void this.refresh(this.watch(watchedDocument(entry, undefined, true)));
  }

  protected override async adopt(registration: StoredRegistration<JsonObject>): Promise<void> {
    const stamp = registrationStamp(registration);
    if (this.unreadable.has(stamp)) return;
    const entry = readRegistration(registration.body);
    if (!Array.isArray(entry)) return void this.refresh(this.watch(watchedDocument(entry, registration)));
    const reason = entry.map(faultLine).join('; ');
    this.unreadable.add(stamp);
    this.logger.error({ collection: registration.name }, `a stored registration is invalid: ${reason}`);
    const error = `The stored registration is invalid: ${reason}; register the document again`;
    const look: SourceLook = { state: 'failed', at: this.clock.now(), error, refused: [], notes: [] };
    await this.keepLook({ kind: 'openapi', name: registration.name }, look);
  }

  /** Registers the tools of a declared source again that the store lost. */
  repeat(entry: OpenApiEntry): void {
    const watched = this.watched.get(openApiSource(entry).name);
    if (watched && watched.tools > 0) this.start([entry]);
  }

  /**
   * Registers a document at run time. Problems of the document are a reply with `success: false`.
   * @param registration stored together with the tools; without one nothing is stored. `preview`: nothing is registered either
   * @throws ToolError REQUEST_INVALID for a malformed message, TOOL_NAME_CONFLICT when all names belong to other sources
   */
  async add(message: OpenApiEntry, registration?: StoredRegistration | 'preview'): Promise<OpenApiRegisterReply> {
    const entry = readRegistration(message as unknown as JsonObject);
    if (Array.isArray(entry)) {
      const reason = entry.map(faultLine).join('; ');
      throw invalidRequest(`The registration is invalid: ${reason}`);
    }
    const base = {
      collection_name: entry.name,
      rate_limit: entry.rate_limit ?? DEFAULT_RATE_LIMIT,
      timeout_seconds: entry.timeout_seconds,
      max_response_bytes: openapiResponseLimit(entry.max_response_bytes),
    };
    try {
      const spec = await this.load(entry, false);
      const converted = await this.convert(entry, spec);
      if (registration === 'preview') {
        const names = converted.definitions.map(({ name }) => name);
        return { ...base, success: true, operations_registered: names, message: PREVIEWED, refused: converted.refused };
      }
      const reply = await this.mutex.run(openApiSource(entry).name, async () => {
        const given = await this.register(entry, converted, spec, registration && { registration, isNew: true });
        if (given.registered.length > 0 || given.refused.length === 0) {
          const watched = this.watch(watchedDocument(entry, registration));
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
        message: [summarize(reply.registered.length, refused), approvalNote(reply.quarantined) ?? []].flat().join('; '),
        refused: refused.slice(0, MAX_WARNINGS),
        warnings: converted.warnings.map(warningText).slice(0, MAX_WARNINGS),
        quarantined: reply.quarantined,
      };
    } catch (error) {
      const known = toToolError(error);
      if (THROWN.has(known.code)) throw known;
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
    const { signal } = this.stopped;
    return this.deps.conversions.report(message, signal, (entry) => this.load(entry, false));
  }

  /** Reads a document. */
  private load(entry: OpenApiEntry, trusted: boolean): Promise<LoadedSpec> {
    return this.specs.read(entry, trusted, this.stopped.signal);
  }

  /** @throws ToolError SPEC_INVALID for a document of which every operation is refused */
  private async convert(entry: OpenApiEntry, spec: LoadedSpec): Promise<ConvertedEntry> {
    const seal = this.deps.sealFor?.(openApiSource(entry).name);
    const converted = await this.deps.conversions.definitions(entry, spec, seal, this.stopped.signal);
    if (converted.definitions.length === 0 && converted.refused.length > 0) {
      throw new ToolError('SPEC_INVALID', {
        message: toLookState([], converted.refused).error,
        details: { reason: converted.refused[0]?.code ?? 'SERVER_URL_MISSING' },
      });
    }
    return converted;
  }

  private register(
    entry: OpenApiEntry,
    { definitions }: ConvertedEntry,
    spec: LoadedSpec,
    footing: Footing | undefined,
  ): Promise<DefinitionRegisterReply> {
    // Only documents behind a URL are pinned. An inline document or a file is written by the one who registers it.
    const { pin = 'refuse', new_tools, operations: named = [] } = entry;
    const options = spec.url === '' ? {} : jsonObject({ document: spec.sha256, pin, named, new_tools });
    return this.deps.register({ source: openApiSource(entry), definitions, replace: true, options }, footing);
  }

  protected override async read(watched: WatchedDocument): Promise<void> {
    const { entry, registration, trusted } = watched;
    const spec = await this.load(entry, trusted);
    const converted = spec.sha256 === watched.sha256 ? undefined : await this.convert(entry, spec);
    await this.mutex.run(openApiSource(entry).name, async () => {
      if (!this.isCurrent(watched)) return;
      let { outcome } = watched;
      if (converted) {
        const reply = await this.register(entry, converted, spec, registration && { registration, isNew: false });
        this.logOutcome(entry, converted, reply);
        outcome = toOutcome(converted, reply);
        watched.tools = reply.registered.length;
      }
      await this.onRegistered(watched, spec, outcome);
    });
  }

  /** Notes the document of the registered tools, and plans the next read. */
  private async onRegistered(
    watched: WatchedDocument,
    { sha256 }: LoadedSpec,
    outcome: WatchedDocument['outcome'],
  ): Promise<void> {
    Object.assign(watched, { sha256, outcome });
    const { refresh_seconds: seconds, spec_inline: inline } = watched.entry;
    const refreshMs = seconds === undefined ? this.options.refreshMs : seconds * 1_000;
    const isFinal = refreshMs === 0 || inline;
    await this.onLooked(watched, outcome, isFinal ? undefined : Math.max(MIN_REFRESH_MS, refreshMs));
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

  protected override logFailure({ name }: OpenApiEntry, error: string): void {
    this.logger.warn({ collection: name, error }, 'an OpenAPI document cannot be registered; trying again');
  }
}

function watchedDocument(
  entry: OpenApiEntry,
  registration: StoredRegistration | undefined,
  trusted = false,
): WatchedDocument {
  return { entry, registration, trusted, sha256: '', failures: 0, tools: 0, outcome: NOTHING_SEEN };
}

/** Checks the fields of a registration, its name among them. */
function readRegistration({ name, ...fields }: JsonObject): OpenApiEntry | Fault[] {
  return readOpenApiEntry(String(name), fields);
}

const NOTHING_SEEN: WatchedDocument['outcome'] = { state: 'ok', refused: [], notes: [] };

function toOutcome(converted: ConvertedEntry, reply: DefinitionRegisterReply): WatchedDocument['outcome'] {
  const refused = [...converted.refused, ...reply.refused];
  return { ...toLookState(reply.registered, refused), notes: converted.warnings.map(warningText) };
}

function summarize(registered: number, refused: RefusedTool[]): string {
  return [`Registered ${registered} operations`, summarizeRefusals(refused)].filter((part) => part !== '').join('; ');
}
