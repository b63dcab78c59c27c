import 'reflect-metadata';
import { RequestMethod } from '@nestjs/common';
import type { JsonObject } from '@toolfleet/contracts';
import { expect, it } from 'vitest';
import { GatewayModule, type GatewayModuleDeps } from '../wiring/gateway.module.js';
import { apiDocument } from './api-document.js';

/** Routes below /api/v1 as the controllers declare them, in the form of the document. */
function routes(): string[] {
  const { controllers = [] } = GatewayModule.with({ instances: [] } as unknown as GatewayModuleDeps);
  return controllers.flatMap((controller) => {
    const base = String(Reflect.getMetadata('path', controller));
    const methods = Object.getOwnPropertyNames(controller.prototype).map(
      (name) => controller.prototype[name] as object,
    );
    return methods.flatMap((handler) => {
      const method: RequestMethod | undefined = Reflect.getMetadata('method', handler);
      if (method === undefined) return [];
      const path = `/${[base, String(Reflect.getMetadata('path', handler))].join('/')}`
        .replaceAll(/\/+/g, '/')
        .replace(/\/$/, '')
        .replaceAll(/:(\w+)/g, '{$1}');
      return path.startsWith('/api/v1') ? [`${RequestMethod[method]} ${path}`] : [];
    });
  });
}

it('describes every route of the API, and no other', () => {
  const { paths } = apiDocument('1.0.0') as { paths: Record<string, JsonObject> };
  const described = Object.entries(paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(described.toSorted()).toEqual(routes().toSorted());
  expect(described.length).toBeGreaterThan(20);
});
