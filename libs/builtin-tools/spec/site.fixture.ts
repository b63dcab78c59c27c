import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isToolError, type ToolError } from '@toolfleet/contracts';
import { EgressClient } from '@toolfleet/egress';
import { afterAll, beforeAll, beforeEach } from 'vitest';

/** The smallest PDF with one line of text per page. */
export function smallPdf(...pages: string[]): Buffer {
  const ids = pages.map((_, index) => 4 + 2 * index);
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${ids.map((id) => `${id} 0 R`).join(' ')}] /Count ${pages.length} >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ...pages.flatMap((text, index) => {
      const stream = `BT /F1 24 Tf 72 700 Td (${text}) Tj ET`;
      return [
        `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents ${(ids[index] ?? 0) + 1} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
        `<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`,
      ];
    }),
  ];
  let body = '%PDF-1.4\n';
  const offsets = objects.map((object, index) => {
    const at = body.length;
    body += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return at;
  });
  const xref = body.length;
  const entries = offsets.map((at) => `${String(at).padStart(10, '0')} 00000 n \n`).join('');
  body += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${entries}trailer << /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${xref}\n%%EOF`;
  return Buffer.from(body, 'latin1');
}

/** A web site of the spec's own on a loopback port. */

/** Answers a request. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => void;
let server: Server;
/** Address of the site, and a way out that may reach it. */
export let origin: string;
export let egress: EgressClient;
/** Requests since the test began, and the answers of paths. */
export const seen: string[] = [];
export const routes = new Map<string, Handler>();
/** Answers with this text. */
export const html =
  (body: string, type = 'text/html; charset=utf-8'): Handler =>
  (_request, response) =>
    response.writeHead(200, { 'content-type': type }).end(body);

/** Serves the site for the spec that calls it. */
export function serveSite(): void {
  beforeAll(async () => {
    server = createServer((request, response) => {
      seen.push(request.url ?? '');
      const path = new URL(request.url ?? '/', 'http://x').pathname;
      const route = routes.get(path);
      if (route) return route(request, response);
      return response
        .writeHead(404, { 'content-type': 'text/html' })
        .end('<html><body><h1>Nothing</h1> here</body></html>');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    egress = new EgressClient({ allowlist: [], allowedEndpoints: [origin] });
  });
  afterAll(async () => {
    await egress.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  beforeEach(() => {
    seen.length = 0;
    routes.clear();
  });
}

/** The ToolError of a call that must fail. */
export const catchToolError = async (pending: Promise<unknown>): Promise<ToolError> => {
  const error = await pending.catch((reason: unknown) => reason);
  if (!isToolError(error)) throw new Error(`expected a ToolError, got ${String(error)}`);
  return error;
};
