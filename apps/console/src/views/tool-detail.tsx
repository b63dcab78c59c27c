import type { CatalogTool, CatalogToolDetail } from '@toolfleet/client';
import { useState, type ReactNode } from 'react';
import { useRoute } from '../api/queries.js';
import { byteSize, count, money, pretty } from '../format.js';
import { toAddress, toFilteredAddress } from '../router.js';
import { describeSchema } from '../schema/describe-schema.js';
import { useSigned } from '../session.js';
import { Back, Badge, Card, Empty, Facts, Head, Loaded, Segments, Verbatim } from '../ui/components.js';
import { CallFigures, PeriodChoice, type Period } from './call-figures.js';
import { KIND_NAMES } from './tool-filter.js';
import { TryIt } from './try-it.js';

/** One tool: properties, schemas, and a form to call it; `call`: the id of a call of it to show and repeat. */
export function ToolDetailView({ name, call }: { name: string; call: string | undefined }) {
  const query = useRoute('GET /api/v1/catalog/{name}', { path: { name } });
  return (
    <>
      <Back to={toAddress('tools')}>All tools</Back>
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
                  <Card title="Properties">
                    <Properties tool={tool} />
                  </Card>
                  <SchemaCard title="Arguments" schema={tool.parameters} />
                  {tool.output_schema && <SchemaCard title="Output" schema={tool.output_schema} />}
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
    ['Largest request', byteSize(tool.max_request_bytes)],
    ['Largest result', tool.max_result_bytes === null ? 'none' : byteSize(tool.max_result_bytes)],
    ['Sandboxed', tool.sandboxed ? 'yes' : 'no'],
    ['Tags', tool.tags.join(', ') || 'none'],
  ];
  return <Facts facts={facts} />;
}

const FORMS = [
  ['read', 'Readable'],
  ['json', 'JSON Schema'],
] as const;

function SchemaCard({ title, schema }: { title: string; schema: CatalogToolDetail['parameters'] }) {
  const [form, setForm] = useState<'read' | 'json'>('read');
  return (
    <Card title={title} aside={<Segments label={`Form of ${title}`} value={form} onChange={setForm} options={FORMS} />}>
      {form === 'json' ? (
        <Verbatim label={`JSON Schema of ${title}`} text={pretty(schema)} />
      ) : (
        <SchemaLines schema={schema} />
      )}
    </Card>
  );
}

function SchemaLines({ schema }: { schema: CatalogToolDetail['parameters'] }) {
  const lines = describeSchema(schema);
  if (lines.length === 0) return <Empty>No named properties.</Empty>;
  return (
    <ul className="schema">
      {lines.map(({ path, depth, type, required, description, rules }) => (
        <li key={path} className={`d${depth}`}>
          <span className="row">
            <code className="wrap">{path}</code>
            <span className="soft small">{type}</span>
            {required && <Badge tone="accent">required</Badge>}
          </span>
          {description !== '' && <span className="small wrap">{description}</span>}
          {rules.length > 0 && <span className="small soft wrap">{rules.join(' · ')}</span>}
        </li>
      ))}
    </ul>
  );
}

/** Badges for tools that cannot be called or need care. */
export const ToolMarks = ({ tool }: { tool: CatalogTool }) => (
  <>
    {!tool.available && <Badge tone="warn">unavailable</Badge>}
    {tool.dangerous && <Badge tone="bad">dangerous</Badge>}
    {!tool.callable && !tool.dangerous && <Badge tone="warn">not callable</Badge>}
    {!tool.shared && <Badge tone="accent">own tenant</Badge>}
  </>
);
