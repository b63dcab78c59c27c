import type { Interceptor } from '@toolfleet/engine';
import { toolAllowed } from '@toolfleet/engine/access';
import type { InterceptorSettings } from '@toolfleet/fleet-file';
import { FatalStartupError, type LifecycleComponent, type ServiceHost } from '@toolfleet/service';
import { inspectContent } from './content-interceptor.js';
import { httpInterceptor } from './http-interceptor.js';
import type { InterceptorKind } from './interceptor-kind.js';
import { moduleInterceptor } from './module-interceptor.js';

/** Time of an interceptor that names none. */
const DEFAULT_TIMEOUT_MS = 2_000;

/**
 * The interceptors of the configuration file, and a component that loads the code of those that have some. A mandatory interceptor that
 * cannot be loaded ends the start; any other is a fault, and `on_failure` decides about the calls that it watches.
 */
export function configuredInterceptors(
  configured: { [name: string]: InterceptorSettings },
  allowedEndpoints: readonly string[],
  { clock, faults }: Pick<ServiceHost, 'clock' | 'faults'>,
): { interceptors: Interceptor[]; component: LifecycleComponent } {
  const all = Object.entries(configured).map(([name, settings]) => {
    const { timeout_ms: timeoutMs = DEFAULT_TIMEOUT_MS, at = ['result'] } = settings;
    const kinds: Record<InterceptorSettings['kind'], () => InterceptorKind> = {
      content: () => ({ intercept: inspectContent(settings) }),
      http: () => httpInterceptor(name, settings, { clock, allowedEndpoints, timeoutMs }),
      module: () => moduleInterceptor(settings),
    };
    const kind = kinds[settings.kind]();
    const interceptor: Interceptor = {
      name,
      at,
      timeoutMs,
      failsOpen: settings.on_failure === 'open',
      inspectsChanges: settings.kind === 'content',
      watches: watcher(settings),
      intercept: kind.intercept,
    };
    return { interceptor, kind, isMandatory: settings.mandatory === true };
  });
  const component: LifecycleComponent = {
    name: 'interceptors',
    start: async () => {
      for (const { interceptor, kind, isMandatory } of all) {
        try {
          await kind.load?.();
        } catch (error) {
          const message = `interceptor ${interceptor.name} cannot be loaded: ${(error as Error).message}`;
          if (isMandatory) throw new FatalStartupError(message);
          faults.set(`interceptor ${interceptor.name}`, [message]);
        }
      }
    },
    stop: async () => {
      await Promise.all(all.map(({ kind }) => kind.close?.()));
    },
  };
  return { interceptors: all.map(({ interceptor }) => interceptor), component };
}

/** An interceptor without tools and toolsets watches every call; one with both, the calls that either names. */
function watcher({ tools, toolsets }: InterceptorSettings): Interceptor['watches'] {
  if (!tools && !toolsets) return () => true;
  return ({ name }, toolset) =>
    (tools !== undefined && watchedNames(name).some((each) => toolAllowed(tools, each))) ||
    (toolset !== undefined && toolsets?.includes(toolset) === true);
}

/**
 * The names by which patterns watch a definition. Prompts, skills and resources of an MCP server are watched like its tools: `crm_*` has
 * `prompt:crm_review` and `resource:crm`.
 */
function watchedNames(name: string): string[] {
  const [, kind, own] = /^(prompt|skill|resource):(.*)$/s.exec(name) ?? [];
  if (own === undefined) return [name];
  return kind === 'resource' ? [name, own, `${own}_`] : [name, own];
}
