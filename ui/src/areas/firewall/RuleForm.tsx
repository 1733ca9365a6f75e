import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { rules, services } from '../../api/resources'
import type { Creation } from '../../kit/form/Choice'
import type { Values } from '../../kit/form/fields'
import { CreateDrawer, EditDrawer } from '../../kit/form/ResourceDrawers'
import { useDraft } from '../../kit/form/useDraft'
import { toastApplied, toastFault } from '../../kit/state/toast'
import { paths } from '../../paths'
import { useBook } from './book'
import { type Draft, ruleFields, ruleShape, startOf, typedService } from './rule-form'
import { ruleGuard } from './rule-guard'
import { labelsOf } from './rule-text'

/** Typing a service into a rule creates a service that other rules can use, too. */
function useNewService(): Creation {
  const { t } = useTranslation('firewall')
  const queries = useQueryClient()
  return {
    offer: (text) => {
      const service = typedService(text)
      return service && t('service.make', service)
    },
    make: async (text) => {
      try {
        const { value, applied } = await services.create(typedService(text) ?? {})
        await queries.invalidateQueries({ queryKey: [services.kind] })
        toastApplied(t('service.made', value), applied)
        return value.id
      } catch (cause) {
        toastFault(cause)
        return undefined
      }
    },
  }
}

function useRuleForm() {
  const { t } = useTranslation('firewall')
  const book = useBook()
  const { data = [] } = useQuery({ queryKey: [rules.kind], queryFn: rules.list })
  return {
    resource: rules,
    text: 'firewall:rule',
    list: paths.rules,
    fields: ruleFields(book, labelsOf(data), t, useNewService()),
    shape: { read: ruleShape.read, write: ruleShape.write(book) },
    guard: ruleGuard(data),
  }
}

/** The form for a new rule. A copied rule or a log event can fill it in. */
export function Create() {
  const form = useRuleForm()
  const draft = useDraft<Draft>()
  const place = draft?.priority === undefined ? {} : { priority: draft.priority }
  const write = (values: Values) => ({ ...form.shape.write(values), ...place })
  return <CreateDrawer {...form} defaults={startOf(draft)} shape={{ ...form.shape, write }} />
}

export function Edit() {
  return <EditDrawer {...useRuleForm()} name={(row) => row.name} />
}
