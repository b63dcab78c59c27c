import { useState, type ReactNode } from 'react';
import type { CatalogToolDetail, CatalogTool } from '@toolfleet/client';
import { useSigned } from '../session.js';
import { count, money, pretty } from '../format.js';
import { toAddress, toFilteredAddress } from '../router.js';
import { describeSchema } from '../schema/describe-schema.js';
import { Facts, Badge, Empty, Head, Loaded, Segments } from '../ui/components.js';
import { useQuery } from '../use-query.js';
import { CallFigures, PeriodChoice, type Period } from './call-figures.js';
import { KIND_NAMES } from './tool-filter.js';
import { TryIt } from './try-it.js';

/** One tool: properties, schemas, and a form to call it; `call`: the id of a call of it to show and repeat. */
export function ToolDetailView({ name, call }: { name: string; call: string | undefined }) {
  const { api } = useSigned();
  const query = useQuery(`tool ${name}`, (signal) => api.tool(name, signal));
  return (
    <>
      <p>
        <a href={toAddress('tools')}>All tools</a>
      </p>
      <Loaded query={query}>
        {(tool) => (
          <>
            <Head title={tool.name} about={tool.description}>
              <ToolMarks tool={tool} />
              <a className="button" href={toFilteredAddress('calls', { tool: tool.name })}>
                Calls of this tool
              </a>
            </Head>
            <ToolCalls name={tool.name}>
              <div className="columns">
                {/* Comes first on narrow screens, and next to the properties on wide ones. */}
                <div className="second-column">
                  <TryIt key={tool.revision} tool={tool} call={call} />
                </div>
                <div className="stack">
                  <section className="card stack" aria-labelledby="facts">
                    <h2 id="facts">Properties</h2>
                    <Properties tool={tool} />
                  </section>
                  <section className="card stack" aria-labelledby="takes">
                    <SchemaSection title="Arguments" id="takes" schema={tool.parameters} />
                  </section>
                  {tool.output_schema && (
                    <section className="card stack" aria-labelledby="gives">
                      <SchemaSection title="Output" id="gives" schema={tool.output_schema} />
                    </section>
                  )}
                </div>
              </div>
            </ToolCalls>
          </>
        )}
      </Loaded>
    </>
  );
}

/** Figures of the calls of a tool above `children` and its callers below, for those who see all calls. */
function ToolCalls({ name, children }: { name: string; children: ReactNode }) {
  const { me } = useSigned();
  const [period, setPeriod] = useState<Period>('24h');
  if (!me.rights.includes('all_calls')) return children;
  return (
    <>
      <div>
        <PeriodChoice value={period} onChange={setPeriod} />
      </div>
      <CallFigures filter={{ tool: name }} period={period} by={['user', 'key', 'code']}>
        {children}
      </CallFigures>
    </>
  );
}

/** Effects of a call, and whether the fleet or a person may repeat it. */
function describeEffects({ idempotent, has_effects: hasEffects }: CatalogTool): string {
  if (!idempotent) return 'may change data; repeating a call may change it again';
  return hasEffects ? 'may change data; repeating a call has the same outcome' : 'none, may be repeated';
}

function Properties({ tool }: { tool: CatalogToolDetail }) {
  const facts: [string, string][] = [
    ['Kind', KIND_NAMES[tool.kind]],
    ['Source', tool.source.name],
    ['Category', tool.category],
    ['Version', tool.version],
    ['Price per call', tool.cost_per_use > 0 ? money(tool.cost_per_use) : 'free'],
    ['Rate limit', tool.rate_limit > 0 ? `${count(tool.rate_limit)} a minute` : 'none'],
    ['Time limit', `${tool.timeout_seconds} s`],
    ['Effects', describeEffects(tool)],
    ['Memory limit', tool.memory_limit_mb === null ? 'none' : `${tool.memory_limit_mb} MB`],
    ['Sandboxed', tool.sandboxed ? 'yes' : 'no'],
    ['Tags', tool.tags.join(', ') || 'none'],
  ];
  return <Facts facts={facts} />;
}

function SchemaSection({ title, id, schema }: { title: string; id: string; schema: CatalogToolDetail['parameters'] }) {
  const [form, setForm] = useState<'read' | 'json'>('read');
  const lines = describeSchema(schema);
  return (
    <>
      <div className="row spread">
        <h2 id={id}>{title}</h2>
        <Segments
          label={`Form of ${title}`}
          value={form}
          onChange={setForm}
          options={[
            ['read', 'Readable'],
            ['json', 'JSON Schema'],
          ]}
        />
      </div>
      {form === 'json' ? (
        <pre tabIndex={0} aria-label={`JSON Schema of ${title}`}>
          {pretty(schema)}
        </pre>
      ) : lines.length === 0 ? (
        <Empty>No named properties.</Empty>
      ) : (
        <ul className="schema">
          {lines.map((line) => (
            <li key={line.path} className={`d${line.depth}`}>
              <span className="row">
                <code className="wrap">{line.path}</code>
                <span className="soft small">{line.type}</span>
                {line.required && <Badge tone="accent">required</Badge>}
              </span>
              {line.description !== '' && <span className="small wrap">{line.description}</span>}
              {line.rules.length > 0 && <span className="small soft wrap">{line.rules.join(' · ')}</span>}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** Badges for tools that cannot be called or need care. */
export function ToolMarks({ tool }: { tool: CatalogTool }) {
  return (
    <>
      {!tool.available && <Badge tone="warn">unavailable</Badge>}
      {tool.dangerous && <Badge tone="bad">dangerous</Badge>}
      {!tool.callable && !tool.dangerous && <Badge tone="warn">not callable</Badge>}
      {!tool.shared && <Badge tone="accent">own tenant</Badge>}
    </>
  );
}
