import { isDeepStrictEqual } from 'node:util';
import {
  isToolError,
  SIZES,
  ToolError,
  toToolError,
  type DefinitionRegister,
  type DefinitionRegisterReply,
  type JsonObject,
  type Milliseconds,
  type OpenApiRegister,
  type OpenApiRegisterReply,
  type OpenApiValidate,
  type OpenApiValidateReply,
} from '@toolfleet/contracts';
import type { EgressClient } from '@toolfleet/egress';
import { assertAnyTool, type SpecWarning } from '@toolfleet/openapi';
import type { CancelTimer, Clock } from '@toolfleet/resilience';
import type { Logger } from '@toolfleet/telemetry';
import { conversionOf, convertEntry, type ConvertedEntry } from './openapi-convert.js';
import { openApiSource } from './openapi-definitions.js';
import { readOpenApiEntry, type OpenApiEntry } from './openapi-entry.js';
import type { Seal } from './openapi-secrets.js';
import type { FetchedSpec } from './openapi-spec-cache.js';
import { SpecReader, type SpecReaderFigures } from './openapi-spec-reader.js';

/** What the source needs of the registry. */
export interface OpenApiSourcePorts {
  register(message: DefinitionRegister): Promise<DefinitionRegisterReply>;
  egress: EgressClient;
  /** Seals literal secrets of a collection; undefined when `REGISTRY_SECRET_KEY` is not set. */
  sealFor?: (collection: string) => Exclude<Seal, undefined>;
}

/** Figures of the source (`OPENAPI_SOURCE_KEYS`). */
export interface OpenApiSourceFigures extends SpecReaderFigures {
  /** 0 = documents are not looked at again unless their entry says so. */
  refreshMs: Milliseconds;
}

interface Watched {
  entry: OpenApiEntry;
  sha256: string;
  failures: number;
  cancel?: CancelTimer;
}

const FIRST_BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;
const MIN_REFRESH_MS = 10_000;
/** Warnings and refusals named in one answer or log line. */
const SHOWN = 100;

/**
 * Keeps the tools of OpenAPI documents current: those of the configuration file from the start, others when they are
 * registered. A document that changed is registered again; the registrar's change event and the log say what became of
 * its tools. A document that cannot be read keeps the tools it gave before.
 */
export class OpenApiSource {
  private readonly specs: SpecReader;
  private readonly watched = new Map<string, Watched>();
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

  /** Takes up registrations made earlier; their documents are tried again until they can be read. */
  follow(messages: readonly OpenApiRegister[]): void {
    for (const message of messages) {
      const entry = readOpenApiEntry(message.name, { ...message } as never);
      if (typeof entry === 'string') this.logger.error({ collection: message.name }, `a kept registration ${entry}`);
      else if (!this.isWatched(entry)) void this.look(this.watch(entry), false);
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
   * A registration at run time. Problems of the document are an answer with `success: false` (shannon-compat section 3).
   * @throws ToolError REQUEST_INVALID for a malformed message, TOOL_NAME_CONFLICT when every name belongs to others
   */
  async add(message: OpenApiRegister): Promise<OpenApiRegisterReply> {
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
      const { converted, reply, spec } = await this.register(entry, false);
      const conflict = reply.refused.find(({ code }) => code === 'TOOL_NAME_CONFLICT');
      if (conflict && reply.registered.length === 0)
        throw new ToolError('TOOL_NAME_CONFLICT', { message: conflict.message });
      this.schedule(Object.assign(this.watch(entry), { sha256: spec.sha256 }));
      const refused = [...converted.refused, ...reply.refused];
      return {
        ...base,
        success: reply.registered.length > 0 || refused.length === 0,
        operations_registered: reply.registered,
        message: messageOf(reply.registered.length, refused.length),
        refused: refused.slice(0, SHOWN),
        warnings: converted.warnings.slice(0, SHOWN).map(shown),
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
  async validate(message: OpenApiValidate): Promise<OpenApiValidateReply> {
    const none = { valid: false, operations_count: 0, operations: [], base_url: message.base_url ?? '' };
    const entry = readOpenApiEntry('validate', { ...message } as unknown as JsonObject);
    if (typeof entry === 'string') return { ...none, errors: [`The request ${entry}`] };
    try {
      const spec = await this.specs.read(entry, false, this.stopped.signal);
      const conversion = conversionOf(entry, spec.text, spec.url, this.figures.maxSpecBytes);
      const { tools, refused, findings } = conversion;
      if (refused.length === 0) assertAnyTool(conversion);
      for (const tool of tools) tool.inputSchema(); // finds the warnings that only building the schemas shows
      return {
        valid: tools.length > 0 || refused.length === 0,
        operations_count: tools.length,
        operations: tools.map(({ operationId, method, path, description }) => ({
          operation_id: operationId,
          method,
          path,
          description,
        })),
        base_url: tools[0]?.baseUrl() ?? message.base_url ?? '',
        errors: refused.map(shown),
        warnings: findings.list().slice(0, SHOWN).map(shown),
      };
    } catch (error) {
      if (!isToolError(error) || error.code !== 'SPEC_INVALID') throw error;
      return { ...none, errors: [error.message] };
    }
  }

  private async register(
    entry: OpenApiEntry,
    trusted: boolean,
    known?: string,
  ): Promise<{ converted: ConvertedEntry; reply: DefinitionRegisterReply; spec: FetchedSpec; unchanged: boolean }> {
    const spec = await this.specs.read(entry, trusted, this.stopped.signal);
    if (spec.sha256 === known) return { converted: NOTHING, reply: NO_REPLY, spec, unchanged: true };
    const parts = { egress: this.ports.egress, clock: this.clock, maxSpecBytes: this.figures.maxSpecBytes };
    const converted = await convertEntry(
      entry,
      spec.text,
      spec.url || undefined,
      this.ports.sealFor?.(entry.name),
      parts,
    );
    if (converted.definitions.length === 0 && converted.refused.length > 0) {
      throw new ToolError('SPEC_INVALID', {
        message: converted.refused[0]?.message ?? 'no operation is left',
        details: { reason: converted.refused[0]?.code ?? 'SERVER_URL_MISSING' },
      });
    }
    const reply = await this.ports.register({
      source: openApiSource(entry),
      definitions: converted.definitions,
      replace: true,
    });
    return { converted, reply, spec, unchanged: false };
  }

  /** This very registration was made here: converting it once more would change nothing. */
  private isWatched(entry: OpenApiEntry): boolean {
    const watched = this.watched.get(openApiSource(entry).name);
    return watched !== undefined && watched.sha256 !== '' && isDeepStrictEqual(watched.entry, entry);
  }

  private watch(entry: OpenApiEntry): Watched {
    const key = openApiSource(entry).name;
    this.watched.get(key)?.cancel?.();
    const watched: Watched = { entry, sha256: '', failures: 0 };
    this.watched.set(key, watched);
    return watched;
  }

  private async look(watched: Watched, trusted: boolean): Promise<void> {
    const { entry } = watched;
    try {
      const { converted, reply, spec, unchanged } = await this.register(entry, trusted, watched.sha256);
      watched.failures = 0;
      watched.sha256 = spec.sha256;
      if (!unchanged) this.report(entry, converted, reply);
      this.schedule(watched, trusted);
    } catch (error) {
      if (this.stopped.signal.aborted) return;
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
    for (const { name, message } of refused.slice(0, SHOWN)) {
      this.logger.warn({ collection: entry.name, operation: name, reason: message }, 'an operation was refused');
    }
  }

  private schedule(watched: Watched, trusted = false, delayMs?: number): void {
    watched.cancel?.();
    const { refresh_seconds: seconds, spec_inline: inline } = watched.entry;
    const refreshMs = seconds === undefined ? this.figures.refreshMs : seconds * 1_000;
    const waitMs = delayMs ?? (refreshMs === 0 ? 0 : Math.max(MIN_REFRESH_MS, refreshMs));
    if (this.stopped.signal.aborted || this.watched.get(openApiSource(watched.entry).name) !== watched) return;
    if (waitMs === 0 || (inline && delayMs === undefined)) return;
    watched.cancel = this.clock.after(waitMs, () => void this.look(watched, trusted));
  }
}

const NOTHING: ConvertedEntry = { definitions: [], refused: [], warnings: [] };
const NO_REPLY: DefinitionRegisterReply = {
  registered: [],
  added: [],
  changed: [],
  removed: [],
  refused: [],
  quarantined: [],
};

function messageOf(registered: number, refused: number): string {
  return refused > 0
    ? `Registered ${registered} operations, refused ${refused}`
    : `Registered ${registered} operations`;
}

function shown({ pointer, message }: SpecWarning): string {
  return pointer === '' ? message : `${pointer}: ${message}`;
}
