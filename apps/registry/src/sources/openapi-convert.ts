/** Converts OpenAPI documents with the choices of an entry: to tool definitions, or to a validation report. */
import { isToolError, ToolError, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { OpenApiValidate, OpenApiValidateReply } from '@toolfleet/contracts/registry';
import type { OpenApiBinding } from '@toolfleet/contracts/tool-definition';
import type { EgressClient } from '@toolfleet/egress';
import { faultLine, readOpenApiEntry, type OpenApiEntry } from '@toolfleet/fleet-file';
import { specError, type SpecWarning } from '@toolfleet/openapi';
import type { Clock } from '@toolfleet/resilience';
import { childProgram, ChildPool } from '@toolfleet/resilience/child-pool';
import { holdsSealed } from '@toolfleet/service';
import type { ConversionJob, ConversionOutcome, ConvertedEntry } from './openapi-child.js';
import { openApiSource } from './openapi-definitions.js';
import { sealOpenApiSecrets, sealUserAuth, type Seal } from './secrets.js';
import type { LoadedSpec } from './spec-reader.js';

/** Warnings and refusals listed in one reply or log line. */
export const MAX_WARNINGS = 100;

/** Longest conversion. A document of 15 MB takes about 5 s, and several times as long on a busy machine. */
const CONVERSION_MS: Milliseconds = 60_000;
/** Most waiting conversions of a tenant; all stored documents of a tenant wait when a registry starts. */
const MAX_WAITING = 1_000;
const MIB = 1024 * 1024;
const LEAST_HEAP_MB = 512;
/** Heap of the child in times of the largest document. */
const HEAP_FACTOR = 15;

/**
 * Converts documents in a child process, one at a time because each takes several times the memory of its document; tenants take
 * turns. The child is ended when a conversion takes longer than a minute, so a document cannot hold the registry.
 */
export class OpenApiConversions {
  private readonly pool: ChildPool<ConversionJob, ConversionOutcome>;
  private readonly heapMb: number;

  constructor(
    private readonly egress: Pick<EgressClient, 'check'>,
    clock: Clock,
    private readonly maxSpecBytes: number,
  ) {
    this.heapMb = Math.max(LEAST_HEAP_MB, Math.ceil((HEAP_FACTOR * maxSpecBytes) / MIB));
    const program = childProgram(import.meta.url, 'openapi-child');
    this.pool = new ChildPool(clock, { program, size: 1, maxWaiting: MAX_WAITING, heapMb: this.heapMb });
  }

  /**
   * Definitions of all operations that an entry selects. An operation is refused on its own when it has no server or the egress
   * rules refuse its server.
   * @throws ToolError SPEC_INVALID for an invalid document, one that takes too long or too much memory, or when no operation is left
   */
  async definitions(entry: OpenApiEntry, spec: LoadedSpec, seal: Seal, signal: AbortSignal): Promise<ConvertedEntry> {
    const options = bindingOptions(entry, sealOpenApiSecrets(entry, seal));
    const sealed = entry.auth ? { ...entry, auth: sealUserAuth(entry.auth, seal) } : entry;
    const outcome = await this.run({ ...this.job(sealed, spec), options }, entry.tenant, signal);
    if (!('converted' in outcome)) throw new ToolError('INTERNAL', { message: 'A conversion gave no definitions' });
    const { definitions, refused, warnings } = outcome.converted;
    const admitted = definitions.filter(({ name, binding }) => {
      const violation = this.violation((binding as OpenApiBinding).baseUrl);
      if (violation !== undefined) refused.push({ name, code: 'TARGET_ADDRESS_REFUSED', message: violation });
      return violation === undefined;
    });
    return { definitions: admitted, refused, warnings };
  }

  /** What registering a document would give; nothing is registered. Problems of the document are part of the reply. */
  async report(
    message: OpenApiValidate,
    signal: AbortSignal,
    read: (entry: OpenApiEntry) => Promise<LoadedSpec>,
  ): Promise<OpenApiValidateReply> {
    const none = { valid: false, operations_count: 0, operations: [], base_url: message.base_url ?? '' };
    const { name: _name, ...fields } = message as OpenApiValidate & { name?: string };
    const entry = readOpenApiEntry('validate', fields as unknown as JsonObject);
    if (Array.isArray(entry))
      return { ...none, errors: entry.map((fault) => `The request is invalid: ${faultLine(fault)}`) };
    try {
      const outcome = await this.run(this.job(entry, await read(entry)), entry.tenant, signal);
      if (!('report' in outcome)) throw new ToolError('INTERNAL', { message: 'A conversion gave no report' });
      const { refused, warnings, ...report } = outcome.report;
      return {
        ...report,
        errors: refused.map(warningText),
        warnings: warnings.slice(0, MAX_WARNINGS).map(warningText),
      };
    } catch (error) {
      if (!isToolError(error) || error.code !== 'SPEC_INVALID') throw error;
      return { ...none, errors: [error.message] };
    }
  }

  close(): void {
    this.pool.close();
  }

  private job(entry: OpenApiEntry, { text, url }: LoadedSpec): ConversionJob {
    const { spec_inline: _text, ...choices } = entry;
    return { entry: choices as OpenApiEntry, spec: { text, url }, maxSpecBytes: this.maxSpecBytes };
  }

  private async run(job: ConversionJob, tenant = '', signal: AbortSignal): Promise<ConversionOutcome> {
    const outcome = await this.pool
      .run(job, { timeoutMs: CONVERSION_MS, signal, tenant })
      .catch((error: unknown) => this.explain(error));
    if (!('failure' in outcome)) return outcome;
    const { code, ...options } = outcome.failure;
    throw new ToolError(code, options);
  }

  /** The error of a document that exceeds the limits of a child. */
  private explain(error: unknown): never {
    if (!isToolError(error)) throw error;
    const hint = 'narrow it with operations or tags, or split it';
    if (error.facts?.reason === 'too_slow')
      throw specError(
        'SPEC_TOO_COMPLEX',
        `the document takes longer than ${CONVERSION_MS / 1_000} s to convert; ${hint}`,
      );
    if (error.code === 'MEMORY_EXCEEDED')
      throw specError('SPEC_TOO_COMPLEX', `converting the document needs more than ${this.heapMb} MB; ${hint}`);
    throw error;
  }

  private violation(baseUrl: string): string | undefined {
    try {
      this.egress.check(`${baseUrl}/`);
      return undefined;
    } catch (error) {
      if (!isToolError(error)) throw error;
      return `TARGET_ADDRESS_REFUSED: the server ${baseUrl}: ${error.message}`;
    }
  }
}

/** A warning or refusal as one line: JSON pointer and message. */
export function warningText({ pointer, message }: SpecWarning): string {
  return pointer === '' ? message : `${pointer}: ${message}`;
}

/** Connection options in the binding of every tool of a collection. Secrets are `${VAR}` or sealed. */
function bindingOptions(
  entry: OpenApiEntry,
  secrets: { auth_config?: JsonObject; extra_headers?: JsonObject },
): JsonObject {
  const options: JsonObject = { auth_type: entry.auth_type ?? 'none', ...secrets };
  // The executor opens sealed values only for this registration.
  if (holdsSealed(secrets)) options.registration = openApiSource(entry).name;
  if (entry.vendor_adapter) options.vendor_adapter = entry.vendor_adapter;
  if (entry.max_response_bytes !== undefined) options.max_response_bytes = entry.max_response_bytes;
  return options;
}
