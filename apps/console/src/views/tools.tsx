import type { CatalogTool } from '@toolfleet/client';
import { useDeferredValue, useState } from 'react';
import { useRoute } from '../api/queries.js';
import { count, money } from '../format.js';
import { toAddress } from '../router.js';
import { useSigned } from '../session.js';
import { Badge, Choice, Empty, Head, Loaded, TextInput } from '../ui/components.js';
import { ToolDetailView, ToolMarks } from './tool-detail.js';
import { filterTools, KIND_NAMES, listCategories, SHOWN, type ToolChoice } from './tool-filter.js';

/** Max number of cards shown at once; with thousands of tools, use the search. */
const MAX_SHOWN = 200;

const AVAILABILITY = Object.entries(SHOWN).map(([value, [text]]) => [value, text] as const);

/** Every tool that the key may see, or one of them. */
export function ToolsView({ item, detail }: { item: string | undefined; detail: string | undefined }) {
  const [filter, setFilter] = useState<ToolChoice>({ text: '', kind: '', category: '', only: '' });
  return item === undefined ? (
    <ToolList filter={filter} onFilter={setFilter} />
  ) : (
    <ToolDetailView name={item} call={detail} />
  );
}

interface FilterProps {
  filter: ToolChoice;
  onFilter: (filter: ToolChoice) => void;
}

function ToolList({ filter, onFilter }: FilterProps) {
  const { me } = useSigned();
  const query = useRoute('GET /api/v1/catalog', {});
  const applied = useDeferredValue(filter);
  return (
    <>
      <Head
        title="Tools"
        about={me.admin ? 'Everything this fleet can run for your tenant.' : 'What your key may call.'}
        refreshes
      />
      <Loaded query={query}>
        {(tools) => (
          <>
            <ToolFilters filter={filter} onFilter={onFilter} tools={tools} />
            <ToolCards found={filterTools(tools, applied)} of={tools.length} />
          </>
        )}
      </Loaded>
    </>
  );
}

function ToolFilters({ filter, onFilter, tools }: FilterProps & { tools: CatalogTool[] }) {
  const change = (name: keyof ToolChoice) => (value: string) => onFilter({ ...filter, [name]: value });
  const categories = listCategories(tools).map((name) => [name, name] as const);
  return (
    <search className="filters">
      <TextInput
        type="search"
        label="Search"
        placeholder="Name, words or tags"
        value={filter.text}
        onChange={change('text')}
      />
      <Choice
        label="Kind"
        value={filter.kind}
        onChange={change('kind')}
        options={[['', 'All kinds'], ...Object.entries(KIND_NAMES)]}
      />
      <Choice
        label="Category"
        value={filter.category}
        onChange={change('category')}
        options={[['', 'All'], ...categories]}
      />
      <Choice label="Show" value={filter.only} onChange={change('only')} options={AVAILABILITY} />
    </search>
  );
}

const ToolCards = ({ found, of }: { found: CatalogTool[]; of: number }) => (
  <>
    <p className="soft small" role="status">
      {count(found.length)} of {count(of)} tools
      {found.length > MAX_SHOWN && `, the first ${MAX_SHOWN} shown`}
    </p>
    {found.length === 0 && <Empty>No tool matches. Remove a filter.</Empty>}
    <ul className="cards">
      {found.slice(0, MAX_SHOWN).map((tool) => (
        <li key={tool.name}>
          <ToolCard tool={tool} />
        </li>
      ))}
    </ul>
  </>
);

const ToolCard = ({ tool }: { tool: CatalogTool }) => (
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
