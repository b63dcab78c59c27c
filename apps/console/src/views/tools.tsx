import { useDeferredValue, useState } from 'react';
import type { CatalogTool } from '@toolfleet/client';
import { useSigned } from '../session.js';
import { count, money } from '../format.js';
import { toAddress } from '../router.js';
import { Badge, Choice, Empty, Head, Loaded, Search } from '../ui/components.js';
import { useQuery } from '../use-query.js';
import { listCategories, filterTools, KIND_NAMES, type ToolFilter } from './tool-filter.js';
import { ToolDetailView, ToolMarks } from './tool-detail.js';

/** Most cards shown at once; with thousands of tools, use the search. */
const MOST_SHOWN = 200;

/** Every tool that the key may see, or one of them. */
export function ToolsView({ item, detail }: { item: string | undefined; detail: string | undefined }) {
  const [filter, setFilter] = useState<ToolFilter>({ text: '', kind: '', category: '', only: '' });
  return item === undefined ? (
    <ToolList filter={filter} onFilter={setFilter} />
  ) : (
    <ToolDetailView name={item} call={detail} />
  );
}

function ToolList({ filter, onFilter }: { filter: ToolFilter; onFilter: (filter: ToolFilter) => void }) {
  const { api, me } = useSigned();
  const query = useQuery('tools', api.tools);
  const applied = useDeferredValue(filter);
  return (
    <>
      <Head
        title="Tools"
        about={me.admin ? 'Everything this fleet can run for your tenant.' : 'What your key may call.'}
      >
        <button onClick={query.refresh}>Refresh</button>
      </Head>
      <Loaded query={query}>
        {(tools) => {
          const found = filterTools(tools, applied);
          return (
            <>
              <search className="filters">
                <Search
                  placeholder="Name, words or tags"
                  value={filter.text}
                  onChange={(text) => onFilter({ ...filter, text })}
                />
                <Choice
                  label="Kind"
                  value={filter.kind}
                  onChange={(kind) => onFilter({ ...filter, kind })}
                  options={[['', 'All kinds'], ...Object.entries(KIND_NAMES)]}
                />
                <Choice
                  label="Category"
                  value={filter.category}
                  onChange={(category) => onFilter({ ...filter, category })}
                  options={[['', 'All'], ...listCategories(tools).map((name) => [name, name] as const)]}
                />
                <Choice
                  label="Show"
                  value={filter.only}
                  onChange={(only) => onFilter({ ...filter, only: only as ToolFilter['only'] })}
                  options={[
                    ['', 'All tools'],
                    ['available', 'Available'],
                    ['unavailable', 'Unavailable'],
                    ['callable', 'I may call'],
                    ['dangerous', 'Dangerous'],
                  ]}
                />
              </search>
              <p className="soft small" role="status">
                {count(found.length)} of {count(tools.length)} tools
                {found.length > MOST_SHOWN && `, the first ${MOST_SHOWN} shown`}
              </p>
              {found.length === 0 && <Empty>No tool matches. Remove a filter.</Empty>}
              <ul className="cards">
                {found.slice(0, MOST_SHOWN).map((tool) => (
                  <li key={tool.name}>
                    <ToolCard tool={tool} />
                  </li>
                ))}
              </ul>
            </>
          );
        }}
      </Loaded>
    </>
  );
}

function ToolCard({ tool }: { tool: CatalogTool }) {
  return (
    <a className="card tool" href={toAddress('tools', tool.name)}>
      <span className="row spread">
        <span className="name">{tool.name}</span>
        <Badge>{KIND_NAMES[tool.kind]}</Badge>
      </span>
      <span className="soft small clamp">{tool.description}</span>
      <span className="row small">
        <span className="soft">{tool.category}</span>
        {tool.cost_per_use > 0 && <span className="soft">{money(tool.cost_per_use)}</span>}
        <ToolMarks tool={tool} />
      </span>
    </a>
  );
}
