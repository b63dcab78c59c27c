/** An OTLP collector for a test: keeps the spans it is sent. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The fields of a span that specs read. */
export interface SeenSpan {
  service: string;
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  kind: 'internal' | 'server' | 'client' | 'producer' | 'consumer' | undefined;
  failed: boolean;
  /** Ids of linked traces. */
  links: string[];
  attributes: Record<string, unknown>;
}

interface Attribute {
  key: string;
  value: Record<string, unknown>;
}
interface OtlpSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  kind: number;
  status?: { code?: number };
  links?: { traceId: string }[];
  attributes?: Attribute[];
}
interface OtlpBody {
  resourceSpans?: { resource: { attributes: Attribute[] }; scopeSpans: { spans: OtlpSpan[] }[] }[];
}

const KINDS = [undefined, 'internal', 'server', 'client', 'producer', 'consumer'] as const;
const FAILED = 2;

const plain = (attributes: readonly Attribute[] = []) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

/** Starts the collector on a free loopback port. */
export async function startOtlpSink(): Promise<{ endpoint: string; spans: SeenSpan[]; stop(): Promise<void> }> {
  const spans: SeenSpan[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { resourceSpans = [] } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as OtlpBody;
      for (const { resource, scopeSpans } of resourceSpans) {
        const service = String(plain(resource.attributes)['service.name']);
        for (const span of scopeSpans.flatMap((scope) => scope.spans)) {
          const { name, traceId, spanId, parentSpanId = '', links = [], status } = span;
          spans.push({
            ...{ service, name, traceId, spanId, parentSpanId },
            kind: KINDS[span.kind],
            failed: status?.code === FAILED,
            links: links.map((link) => link.traceId),
            attributes: plain(span.attributes),
          });
        }
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    stop: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
